package main

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tapir/lab/node/nicnode"
	"tapir/nic/fastlinq/mfw/nvm"
)

// flashOptions write the flash.
func flashOptions() []ethtoolOption {
	return []ethtoolOption{
		{short: "f", long: "flash", example: "-f nic0 init_values-8.40.33.0.bin", usage: "write FILE into the flash: storm firmware of any form or the image of a whole flash; else name the REGION", operands: "FILE [REGION]", run: flashFile},
	}
}

// flashRegions are the regions by the names of their images.
var flashRegions = []nvm.Type{nvm.TypeMFW, nvm.TypeMBI, nvm.TypeInitHW}

// parseRegion reads the name of an image, or its number as ethtool has it.
func parseRegion(s string) (nvm.Type, bool) {
	for _, t := range flashRegions {
		if strings.EqualFold(s, t.String()) {
			return t, true
		}
	}
	n, err := strconv.ParseUint(s, 0, 32)
	return nvm.Type(n), err == nil
}

func flashFile(cmd *cobra.Command, d *netdev, operands []string) error {
	if len(operands) == 0 || len(operands) > 2 {
		return usagef("-f takes a file, and perhaps a region: tapir ethtool -f %s init_values-8.40.33.0.bin", d.name)
	}
	region := nvm.Type(0)
	if len(operands) == 2 {
		var ok bool
		if region, ok = parseRegion(operands[1]); !ok {
			return usagef("region %q: use 0 (the file says what it is), MFW, MBI, INIT_HW, or the number of one", operands[1])
		}
	}
	file, err := nicnode.ReadFlashFile(operands[0])
	if err != nil {
		return err
	}
	return d.client.Flash(cmd.Context(), region, file)
}
