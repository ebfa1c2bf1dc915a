// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"everynode.dev/everynode/api/everynode"
	kruiseapi "everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing them")

// ported is the template of a roll with a port of the node, and another image.
func ported(r fakecluster.Roll, image string) map[string]any {
	template := r.Template(image)
	containers := template["spec"].(map[string]any)["containers"].([]any)
	containers[0].(map[string]any)["ports"] = []any{map[string]any{"containerPort": int64(80), "hostPort": int64(8080)}}
	return template
}

// imagesOn lets nodes say which images they have.
func imagesOn(objects []runtime.Object, of map[string][]string) []runtime.Object {
	for _, o := range objects {
		if n, ok := o.(*corev1.Node); ok {
			for _, image := range of[n.Name] {
				n.Status.Images = append(n.Status.Images, corev1.ContainerImage{Names: []string{image}, SizeBytes: 84 << 20})
			}
		}
	}
	return objects
}

// gated has the set close the readiness gate for changes in place, and gives it to all pods but that on the first node.
func gated(objects []runtime.Object) {
	for _, o := range objects {
		if set, ok := o.(*unstructured.Unstructured); ok && set.GetKind() == kruiseapi.Kind {
			set.SetAnnotations(map[string]string{everynode.InPlaceGate: "true"})
		}
		if p, ok := o.(*corev1.Pod); ok && p.Spec.NodeName != "node-1" {
			p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: kruiseapi.InPlaceUpdateReady}}
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: kruiseapi.InPlaceUpdateReady, Status: corev1.ConditionTrue})
		}
	}
}

const manifestText = `apiVersion: apps.kruise.io/v1beta1
kind: DaemonSet
metadata:
  name: fresh
spec:
  selector:
    matchLabels: {app: fresh}
  template:
    metadata:
      labels: {app: fresh}
    spec:
      priorityClassName: absent
      containers:
      - name: agent
        image: registry.example/fresh:1
`

func TestScreens(t *testing.T) {
	inPlace := settled(true, 4)
	inPlace.Spec = rolling(map[string]any{"maxUnavailable": int64(1), "rollingUpdateType": "InPlaceIfPossible"})
	surging := settled(false, 3)
	surging.Spec = rolling(map[string]any{"maxUnavailable": int64(0), "maxSurge": int64(1)})
	surging.Spec["template"] = ported(surging, "registry.example/agent:2")
	mid := fakecluster.Roll{Name: "agent", Advanced: true, Letters: "uuatO-oooon"}
	file := filepath.Join(t.TempDir(), "fresh.yaml")
	if err := os.WriteFile(file, []byte(manifestText), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		roll      fakecluster.Roll
		args      string
		forbidden bool
	}{
		"image":      {roll: settled(true, 12), args: "ads/agent --image agent=registry.example/agent:3"},
		"wide":       {roll: mid, args: "agent --image agent=registry.example/agent:3 --max-unavailable 50% -o wide"},
		"json":       {roll: mid, args: "agent --image agent=registry.example/agent:3 --partition 3 -o json"},
		"yaml":       {roll: settled(false, 2), args: "agent --image agent=registry.example/agent:3 -o yaml"},
		"native":     {roll: settled(false, 6), args: "daemonset/agent --image agent=registry.example/agent:3"},
		"back":       {roll: mid, args: "agent --image agent=registry.example/agent:1"},
		"nothing":    {roll: mid, args: "agent"},
		"paused":     {roll: settled(true, 3), args: "agent --image agent=registry.example/agent:3 --paused"},
		"in-place":   {roll: inPlace, args: "agent --image agent=registry.example/agent:3"},
		"restart":    {roll: inPlace, args: `agent --patch {"spec":{"template":{"metadata":{"annotations":{"everynode.dev/restarted-at":"2026-03-01T12:00:00Z"}}}}}`},
		"surge":      {roll: surging, args: "agent --image agent=registry.example/agent:3"},
		"slow":       {roll: settled(true, 40), args: "agent --image agent=registry.example/agent:3 --max-unavailable 1"},
		"on-delete":  {roll: settled(false, 2), args: "agent --image agent=registry.example/agent:3 --strategy OnDelete"},
		"new":        {roll: settled(false, 4), args: "-f " + file},
		"forbidden":  {roll: settled(true, 3), args: "agent --image agent=registry.example/agent:3", forbidden: true},
		"given-time": {roll: settled(false, 2), args: "agent --image agent=registry.example/agent:3 --assume-start 1m --assume-stop 30s"},
	} {
		t.Run(name, func(t *testing.T) {
			have := map[string][]string{"node-1": {"registry.example/agent:2", "registry.example/agent:3"}, "node-2": {"registry.example/agent:2"}}
			budget := &policyv1.PodDisruptionBudget{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "agents"},
				Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "agent"}}},
			}
			objects := c.roll.Objects(t)
			if name == "in-place" {
				gated(objects)
			}
			s := newServer(t, append(imagesOn(objects, have), budget)...)
			s.forbidden, s.Denied = c.forbidden, c.forbidden
			if err := s.Run(t, New, strings.Fields(c.args)...); err != nil {
				t.Fatal(err)
			}
			fakecluster.Golden(t, *update, name+".txt", s.Out.String())
			if s.stored > 0 || s.tried == 0 != c.forbidden {
				t.Errorf("%d writes were stored and %d tried", s.stored, s.tried)
			}
		})
	}
}

// What a pod says of why it does not start is told, of whatever kind its set is, and the plan does not count on that pod.
func TestAPodThatDoesNotStart(t *testing.T) {
	for _, advanced := range []bool{false, true} {
		objects := (fakecluster.Roll{Name: "agent", Advanced: advanced, Letters: "auu"}).Objects(t)
		for _, object := range objects {
			if pod, ok := object.(*corev1.Pod); ok && pod.Spec.NodeName == "node-1" {
				pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "agent", State: corev1.ContainerState{
					Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"},
				}}}
			}
		}
		s := newServer(t, objects...)
		if err := s.Run(t, New, "agent"); err != nil {
			t.Fatal(err)
		}
		if want := "container agent: ErrImagePull: not found"; !strings.Contains(s.Out.String(), want) {
			t.Errorf("advanced %v: it does not say %q:\n%s", advanced, want, s.Out.String())
		}
	}
}

func TestWrongFlags(t *testing.T) {
	for line, want := range map[string]string{
		"":                                   "name the set to plan for: NAME, or -f FILE",
		"agent -f x.yaml":                    "the file names the set: leave agent out",
		"-f x.yaml --partition 1":            "the file contains the whole edit: leave --partition out",
		"ads/agent --partition x":            `--partition "x": write a number of nodes such as 3, or a percentage from 0% to 100%`,
		"ads/agent --partition 120%":         `--partition "120%": write a number of nodes such as 3, or a percentage from 0% to 100%`,
		"ads/agent --max-unavailable +3":     `--max-unavailable "+3": write a number of nodes such as 3, or a percentage from 0% to 100%`,
		"ads/agent --max-surge -1":           `--max-surge "-1": write a number of nodes such as 3, or a percentage from 0% to 100%`,
		"ads/agent --image x":                `--image "x": write CONTAINER=IMAGE`,
		"ads/agent --image x=y":              `--image x=y: the template has no container "x": it has agent`,
		"ads/agent --strategy x":             `--strategy "x" is not known: write RollingUpdate or OnDelete`,
		"ads/agent --patch {} --paused":      "--patch contains the whole edit: leave --paused out",
		"ads/agent --patch x":                "--patch is no JSON object: invalid character 'x' looking for beginning of value",
		"ads/agent --patch null":             `--patch is no JSON object: it is null: write what is to be changed, such as {"spec":{"minReadySeconds":5}}`,
		"ads/agent --assume-start -5s":       "--assume-start -5s is negative: use a duration such as 10s",
		"ads/agent --partition 99999999999":  "--partition 99999999999 is too large: the largest number of nodes that can be written is 2147483647; a percentage goes to 100%",
		"daemonset/agent --partition 1":      "--partition: a DaemonSet of apps/v1 has no field for that; an Advanced DaemonSet has, and kubectl everynode migrate daemonset/agent makes it one without a restart",
		"daemonset/agent --selector x=y":     "--selector: a DaemonSet of apps/v1 has no field for that; an Advanced DaemonSet has, and kubectl everynode migrate daemonset/agent makes it one without a restart",
		"ads/agent --selector x==y==z,,,in(": `--selector "x==y==z,,,in(" selects no nodes: found '==', expected: ',' or 'end of string'`,
	} {
		s := newServer(t, append(settled(true, 1).Objects(t), settled(false, 1).Object())...)
		err := s.Run(t, New, strings.Fields(line)...)
		if options.Code(err) != options.ExitUsage || err.Error() != want {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}

// What is wrong whatever the set is, is told before the cluster is asked.
func TestWrongFlagsNeedNoCluster(t *testing.T) {
	for _, line := range []string{
		"", "agent -f x.yaml", "-f x.yaml --partition 1", "agent --partition x", "agent --partition 120%", "agent --max-surge -1", "agent --image x",
		"agent --strategy x", "agent --patch {} --paused", "agent --patch x", "agent --selector a==b==c",
		"agent --patch null", "agent --image agent=B@D:::", "agent --assume-hook -1s",
	} {
		s := newServer(t)
		if err := s.Run(t, New, strings.Fields(line)...); options.Code(err) != options.ExitUsage || len(s.Dynamic.Actions()) > 0 {
			t.Errorf("%s: %v after %v", line, err, s.Dynamic.Actions())
		}
	}
}

func TestWrongInput(t *testing.T) {
	dir := t.TempDir()
	write := func(text string) string {
		name := filepath.Join(dir, "x.yaml")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for text, want := range map[string]string{
		"a: [":                                  "reading the file: error converting YAML to JSON",
		"apiVersion: v1\nkind: Pod":             "the file holds v1 Pod: write one DaemonSet of apps/v1 or of apps.kruise.io in it, and nothing else",
		"kind: Pod":                             "the file holds Pod without an apiVersion: write one DaemonSet of apps/v1 or of apps.kruise.io in it, and nothing else",
		"a: b":                                  "the file holds an object without a kind: write one DaemonSet of apps/v1 or of apps.kruise.io in it, and nothing else",
		"apiVersion: apps/v1\nkind: DaemonSet":  `reading the file: metadata.name ""`,
		"# nothing":                             "the file is empty: write one DaemonSet of apps/v1 or of apps.kruise.io in it",
		manifestText + "\n---\n" + manifestText: "the file holds several objects: a plan is for one daemon set, so write each in a file of its own",
		strings.Replace("---\n# leading\n---\n"+manifestText+"\n---\n", "fresh}", "other}", 1): "the server refuses the edit",
	} {
		err := newServer(t).Run(t, New, "-f", write(text))
		if err == nil || !strings.HasPrefix(err.Error(), want) || options.Code(err) != options.ExitError {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// What kubectl apply would make of a file: what it says no longer goes, what others have set stays.
func TestFileAsKubectlApply(t *testing.T) {
	for _, advanced := range []bool{true, false} {
		roll := settled(advanced, 2)
		roll.Spec = map[string]any{"minReadySeconds": int64(7), "updateStrategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"maxUnavailable": int64(2)}}}
		object := roll.Object()
		last := object.DeepCopy()
		delete(last.Object, "status")
		data, err := last.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		object.SetAnnotations(map[string]string{corev1.LastAppliedConfigAnnotation: string(data)})
		object.SetLabels(map[string]string{"set-by": "somebody"})
		wanted := last.DeepCopy()
		spec := wanted.Object["spec"].(map[string]any)
		delete(spec, "minReadySeconds")
		spec["template"] = roll.Template("registry.example/agent:9")
		e, err := fromFile(setOf(object), setOf(wanted))
		if err != nil {
			t.Fatal(err)
		}
		edited, err := tryLocally(setOf(object), e)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := edited.MarshalJSON()
		for part, want := range map[string]bool{"minReadySeconds": false, "agent:9": true, `"set-by":"somebody"`: true, "LEVEL": true, "agent:2\"": false} {
			in := strings.ReplaceAll(string(text), strings.Trim(jsonString(string(data)), `"`), "")
			if strings.Contains(in, part) != want {
				t.Errorf("advanced %v: that %s is there is %v\n%s", advanced, part, !want, in)
			}
		}
		if edited.GetGeneration() != 3 {
			t.Errorf("generation %d, want 3", edited.GetGeneration())
		}
	}
}

// What is forbidden although the right is there was refused by admission: it would be again, so there is no plan.
func TestRefusedByAdmission(t *testing.T) {
	s := newServer(t, settled(true, 2).Objects(t)...)
	s.forbidden = true
	err := s.Run(t, New, "agent", "--image", "agent=registry.example/agent:3")
	if err == nil || !strings.HasPrefix(err.Error(), "the server refuses the edit: ") {
		t.Errorf("got %v", err)
	}
	s = newServer(t, settled(true, 2).Objects(t)...)
	s.Dynamic.PrependReactor("patch", "daemonsets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewInternalError(errors.New("failed calling webhook"))
	})
	if err := s.Run(t, New, "agent", "--paused"); err == nil || !strings.HasSuffix(err.Error(), "(--local does not use the server)") {
		t.Errorf("got %v", err)
	}
	if err := s.Run(t, New, "agent", "--paused", "--local"); err != nil || !strings.Contains(s.Out.String(), "because of --local") {
		t.Errorf("got %v\n%s", err, s.Out.String())
	}
}
