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

// Argument is something that a verb is told behind its name.
type Argument struct {
	// Word stands for it in the help. One that ends with three dots can be repeated.
	Word string
	// What says in words what it is.
	What string
	// Check, if not nil, says what is wrong with it as it is written.
	Check func(text string) error
}

// Arguments checks that a verb is told these, in their order, and nothing else. Only the first ones are needed.
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

// surplus says what a verb takes that is told something else as well.
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
		return fmt.Errorf("%s has no verb %q: it has %s", verbOf(cmd), text, strings.Join(words, ", "))
	default:
		return fmt.Errorf("%s takes no arguments, but got %q", verbOf(cmd), text)
	}
}

// Timeout says what is wrong with what --timeout was given.
func Timeout(d time.Duration) error {
	if d < 0 {
		return Usagef("--timeout %s is negative: use a duration such as 10m", d)
	}
	return nil
}

// Largest says which number of nodes is the largest that the API takes.
const Largest = "the largest number of nodes that can be written is 2147483647; a percentage goes to 100%"

// TooLarge is whether text, which Quantity does not take, is a number all the same.
func TooLarge(text string) bool {
	_, err := strconv.ParseInt(text, 10, 32)
	return errors.Is(err, strconv.ErrRange) && !strings.ContainsAny(text, "+-")
}

// Quantity reads a number of nodes or a percentage of them, as the API takes it; false where text is neither.
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
