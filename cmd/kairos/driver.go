package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/core/driverhost"
)

func driverCommand(at *source) *cobra.Command {
	cmd := &cobra.Command{Use: "driver", Short: "List and lock drivers"}
	cmd.AddCommand(driverLockCommand(), driverListCommand(at))
	return cmd
}

func driverLockCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "lock DIR",
		Short: "Describe the driver binaries of a folder and write its drivers.lock",
		Long: "Runs every kairos-driver-* of the folder with --describe and writes name, version, sha256 and descriptor\n" +
			"to drivers.lock in the same folder. The server starts only what is locked there.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			lock, err := driverhost.DescribeAll(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			path := filepath.Join(args[0], "drivers.lock")
			if err := driverhost.WriteLock(path, lock); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "locked %d drivers in %s\n", len(lock.Descriptors()), path)
			return nil
		},
	}
}

func driverListCommand(at *source) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the locked drivers; starts none", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := at.load()
			if err != nil {
				return err
			}
			lock, err := c.readLock()
			if err != nil {
				return err
			}
			t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 4, 2, ' ', 0)
			fmt.Fprintln(t, "NAME\tVERSION\tROLE\tHANDLES\tEFFECT\tFEATURES")
			for _, d := range lock.Descriptors() {
				fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", d.Name, d.Version, d.Role,
					strings.Join(d.Handles, ","), d.Effect, strings.Join(d.Features, ","))
			}
			return t.Flush()
		},
	}
}
