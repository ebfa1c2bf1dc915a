// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"testing"
)

// TestWhoNamesAUIDIsNotTheSetsOwn: a tenant may write the UID of a set into pods and revisions of a namespace, or of a group, that the set is not of. They
// count for nothing, whether the set is known before them or after.
func TestWhoNamesAUIDIsNotTheSetsOwn(t *testing.T) {
	for name, change := range map[string]func(p *Pod, r *Revision){
		"of another namespace": func(p *Pod, r *Revision) { p.Namespace, r.Namespace = "evil", "evil" },
		"of another group":     func(p *Pod, r *Revision) { p.Advanced, r.Advanced = true, true },
	} {
		for _, known := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				f := newFixture(t)
				f.node("a")
				key := f.set("ds")
				if !known {
					f.x.DeleteSet(key)
				}
				owner := pod("own", "a", "ds")
				live, leaving := pod("live", "a", "ds"), pod("leaving", "a", "ds")
				leaving.Deleting = true
				r := Revision{Namespace: owner.Namespace, Name: "ds-1", UID: "r1", Owner: owner.Owner, RV: f.next(), Number: 7}
				change(&live, &r)
				change(&leaving, &Revision{})
				clear(f.noted)
				f.put(live)
				f.put(leaving)
				f.x.PutRevision(r)
				if len(f.noted) != 0 {
					t.Errorf("notified %v", f.noted)
				}
				if !known {
					f.set("ds")
				}
				f.want(key, "a=must-run[] ")
				if owned, _ := f.x.History(key); len(owned) != 0 {
					t.Errorf("revisions %v", owned)
				}
				f.x.Doom(live.UID, 1)
				f.x.Unsettle(live.UID, 2)
				f.x.DeletePod(live.UID, f.next())
				f.put(owner)
				f.want(key, "a=must-run[own] ")
			})
		}
	}
}

// TestClaimsAreLimited: of more orphans than a pass can adopt it gets those with the first names, and is not held up by one that was refused.
func TestClaimsAreLimited(t *testing.T) {
	f := newFixture(t)
	f.node("a")
	f.node("refused")
	key := f.set("ds")
	orphan := func(i int, node string) {
		p := pod(fmt.Sprintf("orphan-%05d", i), node, "ds")
		p.Owner = ""
		f.put(p)
	}
	for i := range 5 * claimLimit {
		orphan(i*7919%(5*claimLimit), "a")
	}
	orphan(0, "refused")
	f.x.Block(key, "refused", Block{Until: 10, Claim: true})
	c := f.x.Claims(key, 5)
	if len(c.Adopt) != claimLimit || !c.More || c.Adopt[0].Name != "orphan-00001" || c.Adopt[claimLimit-1].Name != fmt.Sprintf("orphan-%05d", claimLimit) {
		t.Errorf("%d to adopt, from %s to %s, more: %t", len(c.Adopt), c.Adopt[0].Name, c.Adopt[len(c.Adopt)-1].Name, c.More)
	}
	if c := f.x.Claims(key, 10); c.Adopt[0].Name != "orphan-00000" || len(c.Adopt) != claimLimit {
		t.Errorf("when the refusal is over: %d to adopt, from %s", len(c.Adopt), c.Adopt[0].Name)
	}
}
