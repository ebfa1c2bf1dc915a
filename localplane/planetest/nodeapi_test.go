// SPDX-License-Identifier: Apache-2.0

package planetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v2 "everynode.dev/everynode/api/agent/v2"
	"everynode.dev/everynode/api/openyurt"
	"everynode.dev/everynode/localplane"
)

// owner is the owner of a node, who has its token.
type owner struct {
	t   *testing.T
	api localplane.NodeAPI
}

// ask sends a request to the API of the node and reads the answer.
func (o owner) ask(method, path string, into any) error {
	token, err := os.ReadFile(o.api.TokenFile)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(o.t.Context(), method, "http://"+o.api.Address+path, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("%d: %s", answer.StatusCode, data)
	}
	return json.Unmarshal(data, into)
}

// only returns the one pod of the node.
func (o owner) only() (v2.PodList, v2.Pod, error) {
	list := v2.PodList{}
	err := o.ask(http.MethodGet, "/v2/pods", &list)
	if err == nil && len(list.Pods) != 1 {
		err = fmt.Errorf("the node has %d pods", len(list.Pods))
	}
	if err != nil {
		return list, v2.Pod{}, err
	}
	return list, list.Pods[0], nil
}

func (o owner) must(method, path string, into any) {
	o.t.Helper()
	if err := o.ask(method, path, into); err != nil {
		o.t.Fatalf("%s %s: %v", method, path, err)
	}
}

// The owner of a node upgrades a pod: with its images pulled before, and, decided while the node is cut, when it is healed. Two nodes
// serve their APIs from one process.
func (f *fixture) nodeAPI(t *testing.T) {
	list := pods(t, f.client, "a")
	if len(list) < 2 {
		t.Fatalf("there are %d pods", len(list))
	}
	owners := map[string]owner{}
	for i := range list[:2] {
		announce(t, f, &list[i])
		api, err := f.plane.ServeNodeAPI(t.Context(), list[i].Spec.NodeName, "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		owners[list[i].Spec.NodeName] = owner{t, api}
	}
	first, second := list[0], list[1]
	a, b := owners[first.Spec.NodeName], owners[second.Spec.NodeName]
	if a.api.Address == b.api.Address {
		t.Fatalf("both are at %s", a.api.Address)
	}
	path := "/v2/pods/" + namespace + "/"
	eventually(t, grace, "the news reaches the node", func() error { return offers(a, first.Name) })
	a.must(http.MethodPost, path+first.Name+"/imagepull", &v2.ImagePull{})
	eventually(t, 2*grace, "the images are there", func() error {
		_, pod, err := a.only()
		if err == nil && pod.Images.State != v2.ImagesReady {
			err = fmt.Errorf("the images are %+v", pod.Images)
		}
		return err
	})
	a.must(http.MethodPost, path+first.Name+"/upgrade", &v2.Upgrade{})
	eventually(t, 2*grace, "the pod is replaced", func() error { return f.replaced(t, &first) })

	eventually(t, grace, "the news reaches the other node", func() error { return offers(b, second.Name) })
	f.decideWhileCut(t, b, &second)
	f.endAPI(t, first.Spec.NodeName, a)
	f.endAPI(t, second.Spec.NodeName, b)
}

// decideWhileCut decides on a node that is cut, and has the process that serves it killed in between.
func (f *fixture) decideWhileCut(t *testing.T, o owner, pod *v1.Pod) {
	t.Helper()
	if err := f.plane.CutNode(t.Context(), pod.Spec.NodeName); err != nil {
		t.Fatal(err)
	}
	eventually(t, grace, "the node is cut", func() error {
		list, _, err := o.only()
		if err == nil && list.Connected {
			err = errors.New("it is connected")
		}
		return err
	})
	path := "/v2/pods/" + namespace + "/" + pod.Name + "/upgrade"
	if err := o.ask(http.MethodPost, path, &v2.Upgrade{}); err == nil || !strings.Contains(err.Error(), string(v2.ReasonDisconnected)) {
		t.Errorf("an upgrade of a cut node: %v", err)
	}
	o.must(http.MethodPost, path+"?when=connected", &v2.Decision{})
	for _, act := range []func() error{
		func() error { return f.plane.KillComponent(t.Context(), "kwok") }, func() error { return f.plane.StartComponent(t.Context(), "kwok") },
	} {
		if err := act(); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, grace, "the decision is still there, and the pod is shown", func() error {
		if _, shown, err := o.only(); err != nil || shown.UID != string(pod.UID) {
			return fmt.Errorf("it shows %+v: %w", shown, err)
		}
		return o.ask(http.MethodGet, path, &v2.Decision{})
	})
	if err := f.replaced(t, pod); err == nil {
		t.Error("the pod of a cut node is replaced")
	}
	if err := f.plane.HealNode(t.Context(), pod.Spec.NodeName); err != nil {
		t.Fatal(err)
	}
	eventually(t, 5*grace, "the decision is carried out", func() error { return f.replaced(t, pod) })
}

func (f *fixture) endAPI(t *testing.T, node string, o owner) {
	t.Helper()
	if err := f.plane.EndNodeAPI(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	eventually(t, grace, "nobody listens any more", func() error {
		conn, err := net.DialTimeout("tcp", o.api.Address, time.Second)
		if err != nil {
			return nil
		}
		return errors.Join(errors.New("somebody listens"), conn.Close())
	})
}

// offers is whether the API of a node says that there is a newer revision for its one pod.
func offers(o owner, name string) error {
	_, pod, err := o.only()
	if err == nil && (pod.Name != name || pod.NextRevision == "") {
		err = fmt.Errorf("it is %+v", pod)
	}
	return err
}

// replaced is whether another pod has taken the place of one.
func (f *fixture) replaced(t *testing.T, pod *v1.Pod) error {
	now, err := f.client.CoreV1().Pods(namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && now.UID != pod.UID {
		return nil
	}
	return errors.Join(err, fmt.Errorf("the pod %s is still there", pod.Name))
}

// announce tells a pod that there is a newer revision. It is the one that it has, for nothing else is served on this plane.
func announce(t *testing.T, f *fixture, pod *v1.Pod) {
	t.Helper()
	patch := fmt.Sprintf(`{"status":{"conditions":[{"type":%q,"status":"True","message":%q}]}}`,
		openyurt.PodNeedUpgrade, openyurt.FormatRevision(pod.Labels["controller-revision-hash"]))
	_, err := f.client.CoreV1().Pods(namespace).Patch(t.Context(), pod.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
}
