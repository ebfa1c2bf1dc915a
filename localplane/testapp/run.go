// SPDX-License-Identifier: Apache-2.0

package testapp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// Invocation is a call of the program.
type Invocation struct {
	// Args are the arguments of the program: none to serve, or the name of a mode and its arguments.
	Args   []string
	Getenv func(string) string
	Out    io.Writer
}

// ErrUsage is wrapped by each usage error.
var ErrUsage = errors.New("usage")

func usage(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrUsage, fmt.Sprintf(format, args...))
}

// Run runs the mode. ctx ends on a signal to stop, which is not an error.
func Run(ctx context.Context, i Invocation) error {
	if len(i.Args) == 0 {
		settings, err := readSettings(i.Getenv)
		if err != nil {
			return err
		}
		return serve(ctx, settings, i.Out)
	}
	modes := map[string]func(context.Context, []string, io.Writer) error{
		"probe": probe, "hold": hold, "get": get, "post": post, "cat": cat, "sleep": sleep,
	}
	mode, known := modes[i.Args[0]]
	if !known {
		names := []string{}
		for name := range modes {
			names = append(names, name)
		}
		slices.Sort(names)
		return usage("there is no mode %q: leave it out to serve, or name one of %s", i.Args[0], strings.Join(names, ", "))
	}
	return mode(ctx, i.Args[1:], i.Out)
}

// one returns the only argument of a mode.
func one(args []string, what string) (string, error) {
	if len(args) != 1 {
		return "", usage("%d arguments, want one: %s", len(args), what)
	}
	return args[0], nil
}

// cat prints a file, for images without a shell.
func cat(_ context.Context, args []string, out io.Writer) error {
	name, err := one(args, "the name of a file")
	if err != nil {
		return err
	}
	file, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("reading what is to be printed: %w", err)
	}
	defer file.Close()
	if _, err := io.Copy(out, file); err != nil {
		return fmt.Errorf("printing %s: %w", name, err)
	}
	return nil
}

// sleep runs until it gets a signal.
func sleep(ctx context.Context, args []string, _ io.Writer) error {
	if len(args) != 0 {
		return usage("sleep takes no arguments: it ends with a signal")
	}
	<-ctx.Done()
	return nil
}
