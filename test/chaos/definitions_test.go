// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/test/observe"
)

// drop has an administrator delete definitions, and with them all objects of theirs, in the middle of a roll. Sets of apps/v1 are rolled until the definitions come back.
// Both are awaited: that managers have noticed, and that rolls begin nevertheless.
func (p *play) drop(f fault, directory string, names ...string) {
	p.t.Helper()
	p.beginRoll()
	if out, err := p.Cluster.Kubectl(p.Context(), append([]string{"delete", "customresourcedefinitions", "--timeout=2m"}, names...)...); err != nil {
		p.t.Fatalf("%v: %s", err, out)
	}
	p.beginRoll()
	p.busy(f.hold + grace)
	p.beginRoll()
	for _, name := range names {
		if out, err := p.Cluster.Kubectl(p.Context(), "get", "customresourcedefinition", name); err == nil {
			p.t.Errorf("the definition is there before it is applied:\n%s", out)
		}
		file := filepath.Join("..", "..", "config", directory, "00-crd-"+name+".yaml")
		if out, err := p.Cluster.Kubectl(p.Context(), "apply", "--server-side", "-f", file); err != nil {
			p.t.Fatalf("%v: %s", err, out)
		}
	}
}

// dropPolicies has an administrator delete the definitions of rollout policies. No set has one.
func (p *play) dropPolicies(f fault) {
	p.t.Helper()
	p.drop(f, "policy", "rolloutpolicies."+everynode.Domain, "rolloutapprovals."+everynode.Domain)
	p.busy(f.hold)
}

// dropAdvanced has an administrator delete the definition of Advanced DaemonSets, and so these sets, whose pods the garbage collector deletes. When the definition has
// come back, users apply the sets again. What is judged of these begins again.
func (p *play) dropAdvanced(f fault) {
	p.t.Helper()
	began, said := time.Now(), map[string]int{}
	for _, manager := range []string{firstManager, secondManager} {
		said[manager] = len(p.Cluster.Log(manager))
	}
	for _, m := range p.members {
		m.away = m.advanced
	}
	p.drop(f, "kruise", kruise.Resource+"."+kruise.Group)
	p.Poll("a manager has noticed", func() error {
		for manager, bytes := range said {
			if log := p.Cluster.Log(manager); strings.Contains(log[min(bytes, len(log)):], "A dialect is left out") {
				return nil
			}
		}
		return errors.New("no manager leaves a dialect out")
	})
	for _, m := range p.members {
		if m.advanced {
			p.Poll("set "+m.name+" of a backup is accepted", func() error { return p.create(m) })
			m.away, m.held, m.before = false, false, 0
		}
	}
	p.settle("the sets of the definition that has come back run everywhere")
	const late = 5 * time.Second // a request may take
	p.collecting = append(p.collecting, observe.Span{From: began, To: time.Now().Add(late)})
}

// create makes a set again, as users last wanted it.
func (u *troupe) create(m *member) error {
	set, err := manifest(u.Name, u.budgets, m)
	if err != nil {
		u.t.Fatal(err)
	}
	_, err = u.client(m).Create(context.WithoutCancel(u.Context()), set, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating set %s: %w", m.name, err)
	}
	return nil
}
