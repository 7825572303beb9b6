package ops

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
)

// initCommand is `kairos init`.
func initCommand() *cobra.Command {
	return &cobra.Command{
		Use: "init [FILE]", Short: "Write a configuration file to start from", Args: cobra.MaximumNArgs(1),
		Long: "Writes a configuration file, kairos.yaml in this folder unless FILE names another, with every key, its meaning and its\n" +
			"default, all of it in comments. A file that exists is never changed. With FILE - it is printed.",
		Example: "  kairos init\n  kairos init /etc/kairos/kairos.yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			sample, err := config.Sample()
			if err != nil {
				return err
			}
			path := append(args, "kairos.yaml")[0]
			if path == "-" {
				_, err := fmt.Fprint(cmd.OutOrStdout(), sample)
				return err
			}
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
			if errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("%s exists: it stays as it is. Name another file, or compare with `kairos init -`", path)
			}
			if err != nil {
				return fmt.Errorf("write the configuration: %w", err)
			}
			_, err = f.WriteString(sample)
			if err = errors.Join(err, f.Close()); err != nil {
				return fmt.Errorf("write the configuration: %w", err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "wrote %s\n  next: change it, then `kairos config check --config %s`\n", path, path)
			return nil
		},
	}
}
