// SPDX-License-Identifier: Apache-2.0

package openyurt_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/json"

	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialect/base"
	"everynode.dev/everynode/internal/dialect/openyurt"
	"everynode.dev/everynode/internal/rollout"
)

const (
	strategyKey = "apps.openyurt.io/update-strategy"
	maxKey      = "apps.openyurt.io/max-unavailable"
	blameKey    = "everynode.dev/failure-attribution-window"
)

// daemonSet is an object with that type of update strategy and these annotations.
func daemonSet(t testing.TB, kind string, annotations map[string]string) map[string]any {
	t.Helper()
	var obj map[string]any
	err := json.Unmarshal([]byte(`{
		"metadata": {"namespace": "ns", "name": "ds", "uid": "u", "generation": 3},
		"spec": {
			"selector": {"matchLabels": {"app": "x"}},
			"updateStrategy": {"type": "`+kind+`"},
			"template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
		},
		"status": {"desiredNumberScheduled": 4, "observedGeneration": 2}
	}`), &obj)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]any{}
	for key, value := range annotations {
		all[key] = value
	}
	obj["metadata"].(map[string]any)["annotations"] = all
	return obj
}

func TestDigest(t *testing.T) {
	percent := func(n int) rollout.Quantity { return rollout.Quantity{Value: n, Percent: true} }
	rolling := func(q rollout.Quantity, blame time.Duration) rollout.Set {
		return rollout.Set{Strategy: rollout.RollingUpdate, MaxUnavailable: q, MaxReplacing: &q, Unreachable: rollout.Unreachable{Skip: true, AttributionWindow: blame}}
	}
	capped := rolling(rollout.Quantity{Value: 3}, 10*time.Minute)
	capped.MaxReplacing = &rollout.Quantity{Value: 1}
	onDelete := rollout.Set{Strategy: rollout.OnDelete, MaxUnavailable: rollout.Quantity{Value: 1}}
	ota := onDelete
	ota.Announce = true
	for _, c := range []struct {
		name, kind  string
		annotations map[string]string
		want        rollout.Set
	}{
		{"none", "OnDelete", nil, onDelete},
		{"none, rolling", "RollingUpdate", nil, rollout.Set{Strategy: rollout.RollingUpdate, MaxUnavailable: rollout.Quantity{Value: 1}}},
		{"only a budget", "OnDelete", map[string]string{maxKey: "0"}, onDelete},
		{"OTA", "OnDelete", map[string]string{strategyKey: "ota"}, ota},
		{"OTA looks at no budget", "OnDelete", map[string]string{strategyKey: "OTA", maxKey: "0", blameKey: "x"}, ota},
		{"advanced", "OnDelete", map[string]string{strategyKey: "AdvancedRollingUpdate"}, rolling(percent(10), 10*time.Minute)},
		{"case", "OnDelete", map[string]string{strategyKey: "advancedrollingUPDATE"}, rolling(percent(10), 10*time.Minute)},
		{"empty budget", "OnDelete", map[string]string{strategyKey: "AdvancedRollingUpdate", maxKey: ""}, rolling(percent(10), 10*time.Minute)},
		{"percent", "OnDelete", map[string]string{strategyKey: "AdvancedRollingUpdate", maxKey: "30%"}, rolling(percent(30), 10*time.Minute)},
		{"number", "OnDelete", map[string]string{strategyKey: "AdvancedRollingUpdate", maxKey: "3"}, rolling(rollout.Quantity{Value: 3}, 10*time.Minute)},
		{"blame", "OnDelete", map[string]string{strategyKey: "AdvancedRollingUpdate", blameKey: "5s"}, rolling(percent(10), 5*time.Second)},
		{"a cap of its own", "OnDelete", map[string]string{strategyKey: "AdvancedRollingUpdate", maxKey: "3", "everynode.dev/max-replacing": "1"}, capped},
		{"no blame", "OnDelete", map[string]string{strategyKey: "AdvancedRollingUpdate", blameKey: "0"}, rolling(percent(10), 0)},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := openyurt.Digest(daemonSet(t, c.kind, c.annotations))
			if len(w.Problems) > 0 || !reflect.DeepEqual(w.Set, c.want) {
				t.Errorf("got %+v with problems %v, want %+v", w.Set, w.Problems, c.want)
			}
			plain := onDelete
			if c.annotations["everynode.dev/max-replacing"] != "" {
				plain.MaxReplacing = c.want.MaxReplacing
			}
			if asked := c.annotations[strategyKey] != ""; (w.Plain != nil) != asked || asked && !reflect.DeepEqual(*w.Plain, plain) {
				t.Errorf("plain set %+v", w.Plain)
			}
		})
	}
}

// TestTheEarlierNameOfTheWindow: manifests with the name of earlier versions work as before, and are asked for the new one, which takes precedence.
func TestTheEarlierNameOfTheWindow(t *testing.T) {
	const earlier = "everynode.dev/blame-window"
	for _, c := range []struct {
		annotations map[string]string
		want        time.Duration
		problems    int
	}{
		{map[string]string{earlier: "5s"}, 5 * time.Second, 1},
		{map[string]string{earlier: "5s", blameKey: "7s"}, 7 * time.Second, 1},
		{map[string]string{blameKey: "7s"}, 7 * time.Second, 0},
	} {
		c.annotations[strategyKey] = "AdvancedRollingUpdate"
		w := openyurt.Digest(daemonSet(t, "OnDelete", c.annotations))
		if got := w.Set.Unreachable.AttributionWindow; got != c.want || len(w.Problems) != c.problems {
			t.Errorf("%v: the window is %s, want %s, with the problems %v", c.annotations, got, c.want, w.Problems)
		}
		for _, p := range w.Problems {
			if p.Fatal || p.Reason != openyurt.ReasonDeprecatedAnnotation || !strings.Contains(p.Message, "set "+blameKey+" instead") {
				t.Errorf("%v: %+v", c.annotations, p)
			}
		}
	}
	w := openyurt.Digest(daemonSet(t, "OnDelete", map[string]string{strategyKey: "AdvancedRollingUpdate", earlier: "soon"}))
	if w.Set.Strategy != rollout.OnDelete || len(w.Problems) != 2 {
		t.Errorf("the strategy is %v with a window that cannot be read, and the problems %v", w.Set.Strategy, w.Problems)
	}
}

// Whatever cannot be honoured says which annotation it is and what to do, and no old pod is deleted because of it.
func TestDigestProblems(t *testing.T) {
	const held = "; until then Everynode deletes no old pod of this DaemonSet."
	strategy := func(value string) string {
		return `Annotation apps.openyurt.io/update-strategy is "` + value + `": set it to AdvancedRollingUpdate or OTA, or remove it` + held
	}
	budget := func(value string) string {
		return `Annotation apps.openyurt.io/max-unavailable is "` + value + `": set it to a whole number from 1, or a percentage from 1% to 100%, or remove it for 10%` + held
	}
	blame := func(value string) string {
		return `Annotation everynode.dev/failure-attribution-window is "` + value + `": set it to a duration such as 10m or 90s, or remove it for 10m` + held
	}
	contradiction := func(value string) string {
		return `Annotation apps.openyurt.io/update-strategy is "` + value + `", which goes with spec.updateStrategy.type OnDelete only and is ignored: set the type to OnDelete, or remove the annotation.`
	}
	advanced := func(key, value string) map[string]string {
		return map[string]string{strategyKey: "AdvancedRollingUpdate", key: value}
	}
	for _, c := range []struct {
		kind        string
		annotations map[string]string
		reason      string
		want        []string
	}{
		{"OnDelete", map[string]string{strategyKey: ""}, base.ReasonInvalidAnnotation, []string{strategy("")}},
		{"OnDelete", map[string]string{strategyKey: "Never"}, base.ReasonInvalidAnnotation, []string{strategy("Never")}},
		{"OnDelete", map[string]string{strategyKey: " OTA"}, base.ReasonInvalidAnnotation, []string{strategy(" OTA")}},
		{"RollingUpdate", map[string]string{strategyKey: " OTA"}, openyurt.ReasonIgnoredAnnotation, []string{contradiction(" OTA")}},
		{"RollingUpdate", map[string]string{strategyKey: "ota"}, openyurt.ReasonIgnoredAnnotation, []string{contradiction("ota")}},
		{"RollingUpdate", advanced(maxKey, "0"), openyurt.ReasonIgnoredAnnotation, []string{contradiction("AdvancedRollingUpdate")}},
		{"OnDelete", advanced(maxKey, "0"), base.ReasonInvalidAnnotation, []string{budget("0")}},
		{"OnDelete", advanced(maxKey, "0%"), base.ReasonInvalidAnnotation, []string{budget("0%")}},
		{"OnDelete", advanced(maxKey, "150%"), base.ReasonInvalidAnnotation, []string{budget("150%")}},
		{"OnDelete", advanced(maxKey, "-1"), base.ReasonInvalidAnnotation, []string{budget("-1")}},
		{"OnDelete", advanced(maxKey, "ten"), base.ReasonInvalidAnnotation, []string{budget("ten")}},
		{"OnDelete", advanced(maxKey, "10 %"), base.ReasonInvalidAnnotation, []string{budget("10 %")}},
		{"OnDelete", advanced(blameKey, ""), base.ReasonInvalidAnnotation, []string{blame("")}},
		{"OnDelete", advanced(blameKey, "10"), base.ReasonInvalidAnnotation, []string{blame("10")}},
		{"OnDelete", advanced(blameKey, "-5m"), base.ReasonInvalidAnnotation, []string{blame("-5m")}},
		{"OnDelete", map[string]string{strategyKey: "AdvancedRollingUpdate", maxKey: "x", blameKey: "y"}, base.ReasonInvalidAnnotation, []string{budget("x"), blame("y")}},
	} {
		for name, digest := range map[string]func(map[string]any) dialect.Workload{"with native": openyurt.Digest, "as an external set": openyurt.DigestExternal} {
			w := digest(daemonSet(t, c.kind, c.annotations))
			var got []string
			for _, p := range w.Problems {
				got = append(got, p.Message)
				if p.Reason != c.reason || p.Fatal {
					t.Errorf("%v: problem %+v, want reason %s", c.annotations, p, c.reason)
				}
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("%v, %s: got\n%s\nwant\n%s", c.annotations, name, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
			// OpenYurt ignores the annotation with RollingUpdate: whoever keeps the pods rolls.
			rolls := c.kind == "RollingUpdate" && name == "with native"
			if (w.Set.Strategy == rollout.RollingUpdate) != rolls || w.Set.Announce || w.Set.Unreachable.Skip {
				t.Errorf("%v, %s: %+v", c.annotations, name, w.Set)
			}
		}
	}
}

func TestDigestExternal(t *testing.T) {
	w := openyurt.DigestExternal(daemonSet(t, "OnDelete", map[string]string{strategyKey: "AdvancedRollingUpdate"}))
	if !w.Set.ExternalController || w.Set.Strategy != rollout.RollingUpdate || w.Plain == nil || w.ObservedGeneration != 2 || w.Status != (rollout.Status{}) {
		t.Errorf("%+v", w)
	}
	// What nothing is asked for is all the other controller's business, whatever is wrong with it.
	w = openyurt.DigestExternal(daemonSet(t, "RollingUpdate", map[string]string{"everynode.dev/max-replacing": "x"}))
	if !w.Set.ExternalController || w.Set.Strategy != rollout.OnDelete || w.Plain != nil || w.Problems != nil {
		t.Errorf("%+v", w)
	}
}

// FuzzDigest: whatever stands in the annotations, a budget that deletes pods is one that was asked for.
func FuzzDigest(f *testing.F) {
	for _, seed := range [][4]string{{"OnDelete", "AdvancedRollingUpdate", "10%", "10m"}, {"OnDelete", "ota", "", ""}, {"RollingUpdate", "x", "0", "-1s"}} {
		f.Add(seed[0], seed[1], seed[2], seed[3])
	}
	f.Fuzz(func(t *testing.T, kind, strategy, limit, blame string) {
		obj := daemonSet(t, "OnDelete", map[string]string{strategyKey: strategy, maxKey: limit, blameKey: blame})
		obj["spec"].(map[string]any)["updateStrategy"] = map[string]any{"type": kind}
		w := openyurt.Digest(obj)
		if slices.ContainsFunc(w.Problems, func(p dialect.Problem) bool { return p.Fatal }) {
			return // nothing at all is done
		}
		rolls := w.Set.Strategy == rollout.RollingUpdate
		q := w.Set.MaxUnavailable
		if rolls && kind != "OnDelete" {
			if w.Set.Unreachable.Skip || w.Set.Announce || len(w.Problems) == 0 {
				t.Fatalf("%q %q %q %q is not ignored, or in silence: %+v", kind, strategy, limit, blame, w.Set)
			}
			return
		}
		if rolls && (len(w.Problems) > 0 || q.Value < 1 || q.Percent && q.Value > 100 || w.Set.Unreachable.AttributionWindow < 0) {
			t.Fatalf("%q %q %q %q: %+v", kind, strategy, limit, blame, w.Set)
		}
		if !rolls && !w.Set.Announce && len(w.Problems) == 0 {
			t.Fatalf("%q %q %q %q is dropped in silence: %+v", kind, strategy, limit, blame, w.Set)
		}
	})
}
