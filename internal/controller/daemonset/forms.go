// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/validation"

	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/dialect/base"
	"everynode.dev/everynode/internal/revision"
)

// form is how another controller writes the data of a revision. These controllers compare bytes: where no revision of a set has those that they would
// write, they make a new one, and replace every pod.
type form struct {
	// writer ends the name of a revision that is written for that controller.
	writer string
	encode func(template map[string]any) ([]byte, error)
}

func formOfKubernetes() form { return form{writer: "kubernetes", encode: revision.Data} }
func formOfOpenKruise() form { return form{writer: "openkruise", encode: revision.DataOfOpenKruise} }

// form is the form that the set's original controller uses, the one that manages it where Everynode is not installed.
func (p *pass) form() form {
	if p.w.Advanced {
		return formOfOpenKruise()
	}
	return formOfKubernetes()
}

// forms are the forms of all controllers that may take over the set directly.
func (p *pass) forms() []form {
	if p.w.Advanced && p.c.UpstreamWorks != nil && p.c.UpstreamWorks() {
		return []form{formOfOpenKruise(), formOfKubernetes()}
	}
	return []form{p.form()}
}

// missingForms are those forms of the template in which no revision with the hash of the current one has it.
func (c *historyCache) missingForms(template map[string]any, forms []form) []form {
	if c.missing != nil && c.formsAsked == len(forms) {
		return c.missing
	}
	c.missing, c.formsAsked = []form{}, len(forms)
	for _, f := range forms {
		data, err := f.encode(template)
		if err != nil {
			continue // nothing in this form can be equal to it
		}
		current := c.h.Revisions[c.h.Current].Hash
		if !slices.ContainsFunc(c.h.Revisions, func(r clustercache.Revision) bool { return r.Hash == current && bytes.Equal(r.Data, data) }) {
			c.missing = append(c.missing, f)
		}
	}
	return c.missing
}

// writeForms writes a revision in a form that the history lacks, with the hash that the pods have, so that the other controller finds them up to date. It
// returns whether it has changed the history. Pods without that hash get nothing from it, and the limit of the history would delete it.
func (p *pass) writeForms(ctx context.Context, h *clustercache.Resolved) (moved bool) {
	if h.Current < 0 || !p.mayTidy() {
		return false
	}
	missing := p.state.history.missingForms(p.w.Template, p.forms())
	if len(missing) == 0 {
		return false
	}
	current := &h.Revisions[h.Current]
	name := p.w.Name + "-" + current.Hash + "-" + missing[0].writer
	taken := slices.ContainsFunc(h.Revisions, func(r clustercache.Revision) bool { return r.Name == name })
	// Collecting the hashes of pods iterates over all of them, so it comes last.
	if len(validation.NameIsDNSSubdomain(name, false)) > 0 || !p.c.Index.LiveHashes(p.key)[current.Hash] {
		return false
	}
	if !taken {
		err := p.createRevisionAs(ctx, newRevision{name: name, hash: current.Hash, number: current.Number, form: missing[0], kind: writesOldRevision})
		if !errors.Is(err, errNameTaken) { // else an object that is not of the history has the name
			return p.tidyMoved(ctx, err)
		}
	}
	p.state.tidyAfter = p.c.Clock.Now().Add(tidyPause)
	p.recordEvent(base.ReasonFailedRevision, fmt.Sprintf("ControllerRevision %s exists with other data or another owner, so a controller that takes the daemon set over may replace its pods: delete that object", name))
	return false
}
