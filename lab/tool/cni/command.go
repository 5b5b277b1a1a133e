package cni

import (
	"os"

	"github.com/spf13/cobra"

	"tapir/lab/tool/usage"
)

// Name is what the program is called as a plug-in: a link of that name to tapir in the
// runtime's directory of plug-ins is all that there is to install.
const Name = "tapir-cni"

// Command is `tapir cni`.
func Command() *cobra.Command {
	return &cobra.Command{
		Use:   "cni",
		Short: "Give a pod a NIC, as a CNI plug-in",
		Long: "Cni is a plug-in of the Container Network Interface, 0.3.0 to 1.0.0: ADD, CHECK, DEL and\n" +
			"VERSION. A container runtime calls it, with its arguments in the environment and the\n" +
			"configuration on standard input. A link " + Name + " to tapir in /opt/cni/bin is the plug-in.\n\n" +
			"ADD starts a NIC in the pod's network namespace, whose operating system's side is the\n" +
			"interface that the runtime asks for, and joins its wire with a bridge of the host. DEL ends\n" +
			"it. Addresses come from an IPAM plug-in.",
		Example: "  ln -s /usr/local/bin/tapir /opt/cni/bin/" + Name + "\n" +
			"  CNI_COMMAND=VERSION tapir cni </dev/null",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			self, err := os.Executable()
			if err != nil {
				return err
			}
			if !Run(self) {
				return usage.Exit(1)
			}
			return nil
		},
	}
}
