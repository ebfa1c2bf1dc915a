// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/test/observe"
)

// drop has an administrator delete definitions, and with them all objects of theirs, in the middle of a roll. Sets of apps/v1 are rolled until the definitions come back.
// Both are awaited: that managers have noticed, and that rolls begin nevertheless. What is to happen meanwhile may be nil.
func (p *play) drop(f fault, meanwhile func(), directory string, names ...string) {
	p.t.Helper()
	p.beginRoll()
	if out, err := p.Cluster.Kubectl(p.Context(), append([]string{"delete", "customresourcedefinitions", "--timeout=2m"}, names...)...); err != nil {
		p.t.Fatalf("%v: %s", err, out)
	}
	p.beginRoll()
	p.busy(f.hold + grace)
	if meanwhile != nil {
		meanwhile()
	}
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
	p.drop(f, nil, "policy", "rolloutpolicies."+everynode.Domain, "rolloutapprovals."+everynode.Domain)
	p.busy(f.hold)
}

// dropAdvanced has an administrator delete the definition of Advanced DaemonSets, and so these sets, whose pods the garbage collector deletes. When the definition has
// come back, users apply the sets again. What is judged of these begins again.
func (p *play) dropAdvanced(f fault) {
	p.t.Helper()
	p.dropKruise(f, nil, kruise.Resource+"."+kruise.Group)
}

// dropKruise is dropAdvanced for these definitions, of which that of Advanced DaemonSets is one.
func (p *play) dropKruise(f fault, meanwhile func(), names ...string) {
	p.t.Helper()
	began, said := time.Now(), map[string]int{}
	for _, manager := range []string{firstManager, secondManager} {
		said[manager] = len(p.Cluster.Log(manager))
	}
	for _, m := range p.members {
		m.away = m.advanced
	}
	p.drop(f, meanwhile, "kruise", names...)
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

// TestFailoverWithoutDefinitions: all definitions of OpenKruise are deleted, and then the leader dies. The next one, and the one that starts meanwhile, go on with sets
// of apps/v1, and with the others when the definitions come back.
func TestFailoverWithoutDefinitions(t *testing.T) {
	const nodes = 60
	p := newPlay(t, nodes)
	began, f := time.Now(), schedule(*seed, 1, dropAdvanced)[0]
	p.random = rand.New(rand.NewPCG(f.seed, 2))
	p.busy(f.after)
	names := []string{kruise.Resource + "." + kruise.Group}
	for _, resource := range []string{kruise.ResourceNodeImage, kruise.ResourceJob} {
		names = append(names, resource+"."+kruise.Group)
	}
	p.dropKruise(f, func() { p.replaceLeader(f) }, names...)
	p.settle("all updates end")
	p.rest(quiet)
	p.judge(time.Since(began), 2*longestGap)
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
