// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"net/http"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"everynode.dev/everynode/internal/testing/fakecluster"
)

// What a user can do about a rollout that waits for a user is data of the model: the action, what it concerns, and the command.
func TestWhatAUserCanDo(t *testing.T) {
	set := fakecluster.Roll{Name: "agent", Advanced: true, Letters: "uoo"}
	paused := set
	paused.Spec = map[string]any{"updateStrategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"paused": true}}}
	for name, c := range map[string]struct {
		objects []runtime.Object
		want    []remedy
	}{
		"nothing":      {set.Objects(t), nil},
		"a pause":      {paused.Objects(t), []remedy{{"resume", "ads/agent", "kubectl everynode resume -n default ads/agent"}}},
		"a suspension": {append(set.Objects(t), suspended(t, "null")), []remedy{{"resume", "rolloutpolicy/waves", "kubectl everynode resume -n default ads/agent"}}},
		"an approval": {append(roll().Objects(t), fakecluster.Object(t, waitingPolicy)), []remedy{
			{"approve", "wave canary", "kubectl everynode approve -n default ads/agent"}, {"reject", "revision agent-" + fakecluster.NewHash, "kubectl everynode reject -n default ads/agent"},
		}},
	} {
		var page message
		open(t, fakecluster.New(t, c.objects...)).read(http.MethodGet, "/api/set"+setQuery, "", &page)
		if got := part[head](t, page, "head").Remedies; !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
