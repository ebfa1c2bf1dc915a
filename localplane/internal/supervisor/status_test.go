// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"testing"

	"everynode.dev/everynode/localplane/internal/component"
	"everynode.dev/everynode/localplane/internal/home"
)

// TestStatusOfAnEndedProcess has nobody watch the process: its end has been waited for, and nobody has taken note of it yet.
func TestStatusOfAnEndedProcess(t *testing.T) {
	f := newFixture(t, func(h home.Home) []component.Component {
		return []component.Component{script(h, "etcd", component.TierStore, sleeper)}
	})
	u := f.units[0]
	p, host, err := u.spawn()
	if err != nil {
		t.Fatal(err)
	}
	u.process, u.host, u.ready, u.proven = p, host, true, true
	if st := f.status("etcd"); st.PID == 0 || !st.Ready {
		t.Errorf("%+v, want it to run and to be ready", st)
	}
	if err := f.Kill("etcd"); err != nil {
		t.Fatal(err)
	}
	if st := f.status("etcd"); st.PID != 0 || st.Ready || st.Wanted {
		t.Errorf("%+v after its kill", st)
	}
}
