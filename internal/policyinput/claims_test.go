// SPDX-License-Identifier: Apache-2.0

package policyinput_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/policyinput"
	"everynode.dev/everynode/internal/revision"
)

// committed is the template with which TestClaims compares others.
const committed = `
metadata: {labels: {app: a}}
spec:
  containers:
  - {name: c, image: a, resources: {requests: {cpu: 1, memory: 1Gi}, limits: {cpu: "2"}}}
  - {name: d, image: b}
  initContainers:
  - {name: i, image: i, resources: {requests: {cpu: 500m}}}
`

func decoded(t *testing.T, text string) map[string]any {
	t.Helper()
	template := map[string]any{}
	data, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = json.Unmarshal(data, &template) // numbers as the manager reads them
	}
	if err != nil {
		t.Fatal(err)
	}
	return template
}

// TestClaims: a quota counts more of a pod if one resource is larger, whatever the others are, or if a LimitRange may give more to it. What decides which quotas count the pod must be the same. Another image,
// label or probe, and less of a resource, claim no more.
func TestClaims(t *testing.T) {
	const c, d, i = `{name: c, resources: {requests: {cpu: 1, memory: 1Gi}, limits: {cpu: 2}}}`, `{name: d}`, `{name: i, resources: {requests: {cpu: 500m}}}`
	spec := func(containers, inits, more string) string {
		return "spec: {containers: [" + containers + "], initContainers: [" + inits + "]" + more + "}"
	}
	for name, test := range map[string]struct {
		template string
		more     bool
	}{
		"the same":                               {spec(c+","+d, i, ""), false},
		"the same in another form":               {spec(`{name: c, resources: {requests: {cpu: 1000m, memory: 1024Mi}, limits: {cpu: 2}}},`+d, i, ""), false},
		"another image, label and network":       {"metadata: {labels: {v: x}}\n" + spec(`{name: c, image: x, livenessProbe: {}, resources: {requests: {cpu: 1, memory: 1Gi}, limits: {cpu: 2}}},`+d, i, ", hostNetwork: true"), false},
		"another node affinity":                  {spec(c+","+d, i, ", affinity: {nodeAffinity: {}}"), false},
		"less of one":                            {spec(`{name: c, resources: {requests: {cpu: 900m, memory: 1Gi}, limits: {cpu: 2}}},`+d, i, ""), false},
		"less of each, no second container":      {spec(`{name: c, resources: {requests: {cpu: 0.5, memory: 1}, limits: {cpu: 1}}}`, "", ""), false},
		"one more is named, and is less":         {spec(`{name: c, resources: {requests: {cpu: 500m, memory: 1}, limits: {cpu: 1}}}, {name: d, resources: {requests: {cpu: 500m}, limits: {cpu: 1}}}`, i, ""), false},
		"a smaller init container":               {spec(c+","+d, `{name: i, resources: {requests: {cpu: 100m}}}`, ""), false},
		"more of one, less of another":           {spec(`{name: c, resources: {requests: {cpu: 1100m, memory: 1}, limits: {cpu: 2}}},`+d, i, ""), true},
		"a larger limit":                         {spec(`{name: c, resources: {requests: {cpu: 1, memory: 1Gi}, limits: {cpu: 3}}},`+d, i, ""), true},
		"a resource that the other has not":      {spec(c+`,{name: d, resources: {requests: {nvidia.com/gpu: 1}}}`, i, ""), true},
		"a limit alone is a request":             {spec(c+`,{name: d, resources: {limits: {ephemeral-storage: 1Gi}}}`, i, ""), true},
		"a request is left out":                  {spec(`{name: c, resources: {requests: {cpu: 1}, limits: {cpu: 2}}},`+d, i, ""), true},
		"a limit is left out":                    {spec(`{name: c, resources: {requests: {cpu: 1, memory: 1Gi}}},`+d, i, ""), true},
		"a container that names nothing":         {spec(c+","+d+",{name: e}", i, ""), true},
		"an init container that names nothing":   {spec(c+","+d, i+",{name: j}", ""), true},
		"a larger init container":                {spec(c+","+d, `{name: i, resources: {requests: {cpu: 5}}}`, ""), true},
		"an init container that goes on":         {spec(c+","+d, `{name: i, restartPolicy: Always, resources: {requests: {cpu: 500m}}}`, ""), true},
		"best effort":                            {spec(d, "", ""), true},
		"a priority class":                       {spec(c+","+d, i, ", priorityClassName: p"), true},
		"a runtime class":                        {spec(c+","+d, i, ", runtimeClassName: p"), true},
		"overhead":                               {spec(c+","+d, i, ", overhead: {cpu: 1}"), true},
		"a deadline":                             {spec(c+","+d, i, ", activeDeadlineSeconds: 5"), true},
		"affinity to pods":                       {spec(c+","+d, i, ", affinity: {podAntiAffinity: {}}"), true},
		"more for the pod":                       {spec(c+","+d, i, ", resources: {requests: {cpu: 7}}"), true},
		"a limit of the pod alone is a request":  {spec(c+","+d, i, ", resources: {limits: {hugepages-2Mi: 2Mi}}"), true},
		"a quantity that cannot be read":         {spec(`{name: c, resources: {requests: {cpu: x}}}`, "", ""), true},
		"less for the pod than for its contents": {spec(c+","+d, i, ", resources: {requests: {cpu: 600m}}"), false},
	} {
		h := &clustercache.Resolved{Entries: []revision.Entry{{Template: decoded(t, committed)}, {Template: decoded(t, test.template)}}}
		if more := policyinput.ClaimsMore(h)(1, 0); more != test.more {
			t.Errorf("%s: a quota counts more: %t", name, more)
		}
	}
}

// TestClaimsThatAreKnown: it is computed once, and what is not known may be more.
func TestClaimsThatAreKnown(t *testing.T) {
	h := &clustercache.Resolved{Entries: []revision.Entry{{Template: decoded(t, committed)}, {}}}
	more := policyinput.ClaimsMore(h)
	if more(0, 0) || !more(1, 0) || !more(0, 1) || !more(2, 0) || !more(0, -1) {
		t.Error("a template that does not exist claims no more")
	}
	if n := testing.AllocsPerRun(10, func() { _ = more(0, 0) }); n > 0 {
		t.Errorf("each call computes it again, with %g allocations", n)
	}
}
