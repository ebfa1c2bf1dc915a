// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"errors"

	"github.com/spf13/pflag"
)

// once is the value of a flag that may be given once: the last of several values would replace the others without a notice.
type once struct {
	pflag.Value
	remedy string
	given  bool
}

// Set implements pflag.Value.
func (v *once) Set(text string) error {
	if v.given {
		return errors.New("the flag is given twice: " + v.remedy)
	}
	v.given = true
	return v.Value.Set(text) //nolint:wrapcheck // the error names the flag
}

// onlyOnce lets each flag be given once.
func onlyOnce(flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		remedy := "write it once"
		if f.Name == "percent" {
			remedy = "write one percentage, and add further waves to spec.waves in the file"
		}
		f.Value = &once{Value: f.Value, remedy: remedy}
	})
}
