// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"reflect"

	"github.com/spf13/cobra"

	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/resolver"
)

// MadeBy returns an error unless these flags of the command plan make the edit of the document. So a program
// that offers only some flags accepts no document with another edit. ImageFlag has one image on each line. The flags are compared with the set as
// it is now. A set that has changed since is not an error here: apply refuses the plan for that.
func (d *Document) MadeBy(ctx context.Context, c *options.Clients, flags map[string]string) error {
	if d.Edit.Type == typeCreate {
		return options.Usagef("the plan creates %s: apply it with `%s apply --plan FILE`", d.Set, options.Program)
	}
	set, err := resolver.Find(ctx, c, d.Set)
	if missing := (*resolver.Missing)(nil); errors.As(err, &missing) {
		return nil
	}
	if err != nil {
		return err //nolint:wrapcheck // it names the set
	}
	if d.same(set.Object) != nil {
		return nil
	}
	if err := d.madeForPolicy(flags, set); err != nil {
		return err
	}
	flags = maps.Clone(flags)
	delete(flags, PolicyFlag)
	made, err := editOf(set, flags)
	if err != nil {
		return err
	}
	if d.Edit.Type != made.Type || !equalJSON(d.Edit.Patch, made.Patch) {
		return options.Usagef("the plan for %s is not the one of these values: make it again", d.Set)
	}
	return nil
}

// madeForPolicy returns an error unless the document was made for the policy in the flags.
func (d *Document) madeForPolicy(flags map[string]string, set *resolver.Set) error {
	text, given := flags[PolicyFlag]
	switch {
	case given != (d.PolicyFile != nil):
		return options.Usagef("the plan for %s is not the one of these values: make it again", d.Set)
	case given:
		return d.PolicyFile.isOf(text, set)
	default:
		return nil
	}
}

// editOf returns the edit that flags make.
func editOf(set *resolver.Set, flags map[string]string) (Edit, error) {
	w, cmd := &editFlags{}, &cobra.Command{}
	w.addFlags(cmd)
	for name, value := range flags {
		for _, one := range ValuesOf(name, value) {
			if err := cmd.Flags().Set(name, one); err != nil {
				return Edit{}, options.Usagef("--%s %q: %w", name, one, err)
			}
		}
	}
	w.given = changed(cmd)
	if err := w.check(); err != nil {
		return Edit{}, err
	}
	return w.edit(set)
}

// equalJSON reports whether two texts mean the same.
func equalJSON(a, b json.RawMessage) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}
