// SPDX-License-Identifier: Apache-2.0

package options

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// Argument is an argument of a command.
type Argument struct {
	// Word is the placeholder in the help. If it ends with three dots, the argument can be repeated.
	Word string
	// What describes the argument.
	What string
	// Check, if not nil, validates the text of the argument.
	Check func(text string) error
}

// Arguments returns a check that a command gets these arguments, in this order, and no others. The first needed ones
// are required.
func Arguments(needed int, all ...Argument) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < needed {
			missing := all[len(args)]
			return fmt.Errorf("%s needs %s, %s", verbOf(cmd), missing.Word, missing.What)
		}
		for i, text := range args {
			if i >= len(all) && (len(all) == 0 || !strings.HasSuffix(all[len(all)-1].Word, "...")) {
				return surplus(cmd, text, all)
			}
			if check := all[min(i, len(all)-1)].Check; check != nil {
				if err := check(text); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

func verbOf(cmd *cobra.Command) string { return strings.TrimPrefix(cmd.CommandPath(), Program+" ") }

// surplus returns the error for a command with too many arguments.
func surplus(cmd *cobra.Command, text string, all []Argument) error {
	var words []string
	switch {
	case len(all) > 0:
		for _, one := range all {
			words = append(words, one.Word)
		}
		return fmt.Errorf("%s takes at most %s, but also got %q", verbOf(cmd), strings.Join(words, " "), text)
	case cmd.HasSubCommands():
		for _, below := range cmd.Commands() {
			words = append(words, below.Name())
		}
		return fmt.Errorf("%s has no subcommand %q: it has %s", verbOf(cmd), text, strings.Join(words, ", "))
	default:
		return fmt.Errorf("%s takes no arguments, but got %q", verbOf(cmd), text)
	}
}

// Timeout validates the value of --timeout.
func Timeout(d time.Duration) error {
	if d < 0 {
		return Usagef("--timeout %s is negative: use a duration such as 10m", d)
	}
	return nil
}

// Largest describes the largest number of nodes in the API.
const Largest = "the largest number of nodes that can be written is 2147483647; a percentage goes to 100%"

// TooLarge reports whether text, which Quantity rejects, is a number anyway.
func TooLarge(text string) bool {
	_, err := strconv.ParseInt(text, 10, 32)
	return errors.Is(err, strconv.ErrRange) && !strings.ContainsAny(text, "+-")
}

// Quantity parses a number of nodes or a percentage, as in the API. ok is false if text is neither.
func Quantity(text string) (any, bool) {
	digits, percent := strings.CutSuffix(text, "%")
	n, err := strconv.ParseInt(digits, 10, 32)
	switch {
	case err != nil || strings.ContainsAny(digits, "+-") || percent && n > 100:
		return nil, false
	case percent:
		return strconv.FormatInt(n, 10) + "%", true
	default:
		return n, true
	}
}
