package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// selftestOptions run the selftests.
func selftestOptions() []ethtoolOption {
	return []ethtoolOption{
		{short: "t", long: "test", example: "-t nic0 online", usage: "selftests: offline (default; cuts the wire off for a moment) or online", operands: "offline|online", run: runSelftest},
	}
}

// runSelftest prints the report as ethtool does. Why a test failed is on
// standard error.
func runSelftest(cmd *cobra.Command, d *netdev, operands []string) error {
	mode := "offline"
	if len(operands) > 0 {
		mode = operands[0]
	}
	if len(operands) > 1 || mode != "offline" && mode != "online" {
		return usagef("-t takes offline or online: tapir ethtool -t %s online", d.name)
	}
	list, err := d.client.Selftest(cmd.Context(), mode == "offline")
	if err != nil {
		return err
	}
	var rows strings.Builder
	var failed []string
	for _, t := range list {
		value := 0
		if t.Fail != "" {
			value = 1
			failed = append(failed, t.Name+": "+t.Fail)
		}
		fmt.Fprintf(&rows, "%s%s\t %d\n", t.Name, strings.Repeat("\t", (31-len(t.Name))/8), value)
	}
	verdict := "PASS"
	if failed != nil {
		verdict = "FAIL"
	}
	if _, err := io.WriteString(cmd.OutOrStdout(), "The test result is "+verdict+"\nThe test extra info:\n"+rows.String()+"\n"); err != nil {
		return err
	}
	if failed != nil {
		return errors.New(strings.Join(failed, "; "))
	}
	return nil
}
