// Command packaging makes what people install: for each platform an archive with
// the server, its drivers and drivers.lock, for Linux an OCI image layout as well,
// and the checksums of the archives. The same commit gives the same bytes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	version := flag.String("version", "", "version of the release")
	platforms := flag.String("platforms", "linux/amd64,linux/arm64,darwin/arm64", "GOOS/GOARCH pairs, separated by commas")
	drivers := flag.String("drivers", "bin/drivers", "folder of the drivers of this machine, with their drivers.lock")
	changed := flag.Int64("changed", 0, "time of the commit, in seconds since 1970; all files have it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *version, strings.Split(*platforms, ","), *drivers, time.Unix(*changed, 0).UTC(), flag.Arg(0))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error: "+err.Error())
		os.Exit(1)
	}
}

func run(ctx context.Context, version string, platforms []string, drivers string, changed time.Time, dir string) error {
	if version == "" || dir == "" {
		return errors.New("usage: packaging -version VERSION [-platforms LIST] [-changed SECONDS] DIR")
	}
	r := release{version: version, changed: changed, dir: dir}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the former release: %w", err)
	}
	var all []platform
	for _, name := range platforms {
		p, err := r.build(ctx, name, drivers)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, p)
	}
	// Each lock has the sums of every platform, so all of them are built by now.
	lock, err := lockOf(filepath.Join(drivers, lockName), all)
	if err != nil {
		return fmt.Errorf("drivers.lock: %w", err)
	}
	for i := range all {
		all[i].add("drivers/"+lockName, 0o644, lock)
		if err := r.archive(all[i]); err != nil {
			return fmt.Errorf("%s: %w", all[i].name(), err)
		}
	}
	if err := r.image(all); err != nil {
		return fmt.Errorf("image: %w", err)
	}
	if err := os.RemoveAll(r.staged()); err != nil {
		return fmt.Errorf("remove what was staged: %w", err)
	}
	return r.sums()
}
