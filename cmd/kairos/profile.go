//go:build profile

package main

import (
	"fmt"
	"os"
	"os/signal"
	"runtime/pprof"
	"syscall"
)

// A build for measuring, see make profile: SIGUSR1 starts a profile of the processor
// time in the file that KAIROS_CPU_PROFILE names, and SIGUSR1 again ends it.
func init() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1)
	go func() {
		for range signals {
			if err := profileUntil(signals); err != nil {
				fmt.Fprintln(os.Stderr, "profile:", err)
			}
		}
	}()
}

func profileUntil(end <-chan os.Signal) error {
	f, err := os.Create(os.Getenv("KAIROS_CPU_PROFILE") + ".part")
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return err
	}
	<-end
	pprof.StopCPUProfile()
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), os.Getenv("KAIROS_CPU_PROFILE"))
}
