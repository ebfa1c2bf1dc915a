// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/json"
)

func TestTolerations(t *testing.T) {
	automatic := []string{
		`{"effect":"NoExecute","key":"node.kubernetes.io/not-ready","operator":"Exists"}`,
		`{"effect":"NoExecute","key":"node.kubernetes.io/unreachable","operator":"Exists"}`,
		`{"effect":"NoSchedule","key":"node.kubernetes.io/disk-pressure","operator":"Exists"}`,
		`{"effect":"NoSchedule","key":"node.kubernetes.io/memory-pressure","operator":"Exists"}`,
		`{"effect":"NoSchedule","key":"node.kubernetes.io/pid-pressure","operator":"Exists"}`,
		`{"effect":"NoSchedule","key":"node.kubernetes.io/unschedulable","operator":"Exists"}`,
	}
	const network = `{"effect":"NoSchedule","key":"node.kubernetes.io/network-unavailable","operator":"Exists"}`
	cases := []struct {
		name, spec string
		want       []string
	}{
		{"none of its own", `{}`, automatic},
		{"host network", `{hostNetwork: true}`, append(automatic[:6:6], network)},
		{
			"one of its own comes first", `{tolerations: [{key: gpu, operator: Exists}]}`,
			append([]string{`{"key":"gpu","operator":"Exists"}`}, automatic...),
		},
		{
			"an automatic one of its own keeps its place and what nobody knows, not its seconds",
			`{tolerations: [{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 300, since: 2}, {key: gpu, operator: Exists}]}`,
			append([]string{
				`{"effect":"NoExecute","key":"node.kubernetes.io/unreachable","operator":"Exists","since":2}`,
				`{"key":"gpu","operator":"Exists"}`, automatic[0],
			}, automatic[2:]...),
		},
		{
			"twice of its own", `{tolerations: [` + strings.Repeat(`{key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute},`, 2) + `]}`,
			append([]string{automatic[0]}, automatic...),
		},
		{
			"the same taint otherwise is another toleration", `{tolerations: [{key: node.kubernetes.io/not-ready, operator: Exists, tolerationSeconds: 5}]}`,
			append([]string{`{"key":"node.kubernetes.io/not-ready","operator":"Exists","tolerationSeconds":5}`}, automatic...),
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := json.Marshal(compile(t, c.spec).Tolerations())
			if err != nil {
				t.Fatal(err)
			}
			if want := "[" + strings.Join(c.want, ",") + "]"; string(got) != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

func TestTolerationsLeaveTheTemplateAlone(t *testing.T) {
	const text = `{"tolerations":[{"effect":"NoExecute","key":"node.kubernetes.io/not-ready","operator":"Exists","tolerationSeconds":300}]}`
	template := spec(t, text)
	compileSpec(t, template)
	if data, _ := json.Marshal(template); string(data) != text {
		t.Errorf("the template became %s", data)
	}
}
