// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"everynode.dev/everynode/test/harness"
)

// TestSmokeStream follows a rollout: a good version, a bad one that gets stuck, and the death of the API server. Each time the cells come to be what the API server
// has, in one connection, and the page says when it is outdated.
func TestSmokeStream(t *testing.T) {
	c := shared.Cluster(t)
	s := c.Space(t, nodes)
	s.Run(set, harness.WithBudget("2", "0"))
	d := start(t, s)
	v := d.follow()
	s.Poll("the cells are those of the API server", func() error { return d.agrees(v) })

	s.Update(set, harness.WithImage(harness.Image2))
	s.Poll("the update is done, and the cells say so", func() error {
		if err := d.agrees(v); err != nil {
			return err
		}
		return v.all("up-to-date", 2)
	})

	s.Update(set, harness.WithImage(harness.BrokenImage))
	s.Poll("two nodes are stuck, and their cells say why", func() error {
		if err := d.agrees(v); err != nil {
			return err
		}
		return v.stuck(2)
	})

	c.Kill(t, "kube-apiserver")
	s.Poll("the page says that it is outdated", func() error {
		v.mu.Lock()
		defer v.mu.Unlock()
		if v.head.Lost == "" {
			return errors.New("it does not say so")
		}
		return nil
	})
	c.StartComponent(t, "kube-apiserver")
	s.Update(set, harness.WithImage(harness.Image))
	s.Poll("the cells are right again", func() error {
		if err := d.agrees(v); err != nil {
			return err
		}
		return v.all("up-to-date", 4)
	})
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.whole != 1 || v.parts < 3 || v.ended {
		t.Errorf("%d whole pages and %d differences came, want one page and several differences (ended: %t)", v.whole, v.parts, v.ended)
	}
}

// all is met when all nodes have a verdict, and the newest revision has at least that number of the differences before it.
func (v *viewer) all(verdict string, least int) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, c := range v.cells {
		if c.Verdict != verdict {
			return fmt.Errorf("%s has %s", c.Node, c.Verdict)
		}
	}
	if v.head.State != "finished" || v.parts < least {
		return fmt.Errorf("the rollout is said to be %s after %d differences", v.head.State, v.parts)
	}
	return nil
}

// stuck is met when that many nodes wait for a pod whose image cannot be pulled, and the others for the budget.
func (v *viewer) stuck(count int) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	pulling, waiting := 0, 0
	for _, c := range v.cells {
		switch {
		case c.Verdict == "wait-available" && strings.Contains(c.Reason, "ImagePull"):
			pulling++
		case c.Verdict == "wait-budget":
			waiting++
		}
	}
	if pulling != count || waiting != nodes-count {
		return fmt.Errorf("%d nodes cannot pull the image, %d wait for the budget", pulling, waiting)
	}
	return nil
}

// TestAUserWhoMayOnlyRead sees the set, and is refused every change: the page knows it before, and the API server says it.
func TestAUserWhoMayOnlyRead(t *testing.T) {
	s := shared.Cluster(t).Space(t, nodes)
	s.Run(set, harness.WithBudget("2", "0"))
	user := "reader-of-" + s.Name
	s.Kubectl("create", "rolebinding", "reader", "--clusterrole=view", "--user="+user)
	defer s.Apply(fmt.Sprintf(`{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": %q},
		"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "everynode-viewer"},
		"subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": %q}]}`, user, user))()
	d := start(t, s, "--as", user)
	v := d.follow()
	s.Poll("the cells are those of the API server", func() error { return d.agrees(v) })
	var missing map[string]string
	d.reads(http.MethodGet, "api/rights?namespace="+s.Name+"&set=daemonset/"+set, "", &missing)
	for verb, right := range map[string]string{"undo": `"patch" on "daemonsets.apps"`, "set-image": `"patch" on "daemonsets.apps"`, "approve": `"create" on "rolloutapprovals.everynode.dev"`} {
		if !strings.Contains(missing[verb], right) {
			t.Errorf("%s is said to need %q", verb, missing[verb])
		}
	}
	var outcome struct{ Error, Output string }
	d.reads(http.MethodPost, "api/verb", `{"verb": "set-image", "namespace": "`+s.Name+`", "set": "daemonset/`+set+`", "arguments": ["*=`+harness.Image2+`"]}`, &outcome)
	if !strings.Contains(outcome.Error, `ask for the verb "patch"`) || outcome.Output != "" || image(t, s) != harness.Image {
		t.Errorf("a change ends with %+v, and the image is %s", outcome, image(t, s))
	}
}

func (d *dashboard) reads(method, path, body string, into any) {
	d.t.Helper()
	answer := d.send(d.t.Context(), method, path, body)
	defer func() { _ = answer.Body.Close() }()
	if err := json.NewDecoder(answer.Body).Decode(into); err != nil || answer.StatusCode != http.StatusOK {
		d.t.Fatalf("%s: %s, %v", path, answer.Status, err)
	}
}
