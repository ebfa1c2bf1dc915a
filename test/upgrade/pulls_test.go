// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"everynode.dev/everynode/test/harness"
)

// The job, its image, the label of the nodes on which it pulls, and how many have that at first.
const (
	job       = "pull"
	pulled    = "registry.example/pulled:1"
	pulls     = harness.LabelPrefix + "pulls"
	fewPulled = 3
)

// TestPulls: one version begins an ImagePullJob, and the other one goes on with it, and back: nodes that have the image keep what they report, and those that are
// chosen later pull it.
func TestPulls(t *testing.T) {
	p := begin(t)
	s := p.Space(t, allNodes)
	nodes := strings.Fields(s.Kubectl("get", "nodes", "--selector="+harness.PoolLabel+"="+s.Name, "--output=jsonpath={.items[*].metadata.name}"))
	if len(nodes) != allNodes {
		t.Fatalf("there are the nodes %q", nodes)
	}
	apply(s, fmt.Sprintf(`
apiVersion: apps.kruise.io/v1beta1
kind: ImagePullJob
metadata: {name: %s}
spec: {image: %q, selector: {matchLabels: {%s: %s}}, parallelism: 1, completionPolicy: {type: Never}}
`, job, pulled, pulls, s.Name))
	choose := func(nodes []string) {
		for _, node := range nodes {
			s.LabelNode(node, pulls, s.Name)
		}
	}
	choose(nodes[:fewPulled])
	succeeded(s, fewPulled)
	before := reports(s)
	if len(before) != fewPulled {
		t.Fatalf("the job has succeeded on %d nodes, and these report it: %v", fewPulled, before)
	}
	for i, to := range []version{p.this, p.earlier} {
		p.upgrade(to)
		chosen := fewPulled + 2*(i+1)
		choose(nodes[:chosen])
		succeeded(s, chosen)
		after := reports(s)
		if len(after) != chosen {
			t.Errorf("with %s %d nodes are chosen, and these report the image: %v", to.name, chosen, after)
		}
		for node, report := range before {
			if after[node] != report {
				t.Errorf("with %s node %s, which had the image, reports\n%s\nand reported\n%s", to.name, node, after[node], report)
			}
		}
		before = maps.Clone(after)
	}
}

// succeeded waits until the job has succeeded on that many nodes, and is active on none.
func succeeded(s *harness.Space, nodes int) {
	want := fmt.Sprintf("%d of %d, 0 failed, 0 active", nodes, nodes)
	s.Poll("the job has succeeded on "+want, func() error {
		out, err := s.KubectlWith("", "get", "imagepulljobs.apps.kruise.io", job, "--output=go-template={{with .status}}{{or .succeeded 0}} of {{.desired}}, {{or .failed 0}} failed, {{or .active 0}} active{{end}}")
		if err != nil || strings.TrimSpace(out) != want {
			return fmt.Errorf("it says %q (%w)", out, err)
		}
		return nil
	})
}

// reports are what NodeImages report of the image, by node.
func reports(s *harness.Space) map[string]string {
	const of = `{{range .items}}{{$node := .metadata.name}}{{with .status}}{{range $image, $status := .imageStatuses}}{{if eq $image "registry.example/pulled"}}{{$node}} {{range $status.tags}}{{.tag}} {{.phase}} {{.startTime}} {{.completionTime}};{{end}}{{"\n"}}{{end}}{{end}}{{end}}{{end}}`
	all := map[string]string{}
	for line := range strings.Lines(s.Kubectl("get", "nodeimages.apps.kruise.io", "--output=go-template="+of)) {
		if node, report, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			all[node] = report
		}
	}
	return all
}
