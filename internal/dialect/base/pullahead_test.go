// SPDX-License-Identifier: Apache-2.0

package base_test

import (
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialect/base"
	"everynode.dev/everynode/internal/rollout"
)

const (
	parallelism = "apps.kruise.io/image-predownload-parallelism"
	timeout     = "apps.kruise.io/image-predownload-timeout-seconds"
	least       = "apps.kruise.io/image-predownload-min-updated-ready-pods"
	wait        = "everynode.dev/wait-for-image"
)

func TestPullAhead(t *testing.T) {
	as := func(n int32, d time.Duration, q rollout.Quantity, wait bool) dialect.PullAhead {
		return dialect.PullAhead{Parallelism: n, Timeout: d, MinUpdatedReady: q, Wait: wait}
	}
	usual := as(1, 300*time.Second, rollout.Quantity{}, false)
	never := func(p dialect.PullAhead) dialect.PullAhead {
		p.NoWait = true
		return p
	}
	given := func(p dialect.PullAhead) dialect.PullAhead {
		p.ParallelismGiven = true
		return p
	}
	for name, e := range map[string]struct {
		annotations map[string]any
		want        dialect.PullAhead
		told        string
	}{
		"nothing said":  {nil, usual, ""},
		"all said":      {map[string]any{parallelism: "7", timeout: "20", least: "10%", wait: "false"}, given(never(as(7, 20*time.Second, rollout.Quantity{Value: 10, Percent: true}, false))), ""},
		"waits":         {map[string]any{wait: "true", least: "0"}, as(1, 300*time.Second, rollout.Quantity{}, true), ""},
		"a percentage":  {map[string]any{parallelism: "10%"}, given(usual), `InvalidAnnotation Annotation ` + parallelism + ` is "10%": set it to a whole number from 1 to 2147483647; until then it counts as 1.`},
		"no time":       {map[string]any{timeout: "0"}, usual, `InvalidAnnotation Annotation ` + timeout + ` is "0": set it to a whole number from 1 to 2147483647; until then it counts as 300.`},
		"more than all": {map[string]any{least: "101%"}, usual, `InvalidAnnotation Annotation ` + least + ` is "101%": set it to a whole number from 0, or a percentage up to 100%; until then images are pulled as soon as an update begins.`},
		"perhaps":       {map[string]any{wait: "True"}, never(usual), `InvalidAnnotation Annotation ` + wait + ` is "True": set it to "true" or "false"; until then no update waits for images.`},
		"wait for each other": {map[string]any{wait: "true", least: "1"}, as(1, 300*time.Second, rollout.Quantity{}, true),
			`IgnoredField Annotation ` + least + ` has no effect together with ` + wait + `: remove one of them; until then images are pulled as soon as an update begins.`},
	} {
		r := &base.Reader{}
		w, _ := r.Workload(map[string]any{
			"metadata": map[string]any{"annotations": e.annotations},
			"spec": map[string]any{
				"selector": map[string]any{"matchLabels": map[string]any{"a": "b"}},
				"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "b"}}, "spec": map[string]any{}},
			},
		})
		var told []string
		for _, p := range r.Problems() {
			told = append(told, p.Reason+" "+p.Message)
		}
		if w.PullAhead != e.want || strings.Join(told, "\n") != e.told {
			t.Errorf("%s: got %+v, told %q", name, w.PullAhead, told)
		}
	}
}
