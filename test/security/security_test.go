// SPDX-License-Identifier: Apache-2.0

package security

import (
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/dialects"
	"everynode.dev/everynode/internal/rbac"
	"everynode.dev/everynode/localplane"
	"everynode.dev/everynode/test/harness"
)

// The planted pull secret.
const (
	password     = "planted-4e6f7468696e67"
	dockerConfig = `{"auths":{"registry.local":{"username":"ann","password":"` + password + `","auth":"YW5uOnBsYW50ZWQtNGU2Zjc0Njg2OTZlNjc="}}}`
)

// TestSmokeRights asks an API server to delete sets that are protected, and looks at what the manager may do, and what it asks and tells while it does a
// part of what it can do. Whether it uses all of its rights is looked at by TestManager.
func TestSmokeRights(t *testing.T) {
	w := newWorld(t, localplane.Dialects()...)
	w.plant()
	w.protectedSetsStay(t)
	w.pulls()
	w.native()
	asked, err := harness.AskedBy(w.AuditLog(), rbac.User(rbac.Manager))
	if err == nil {
		err = harness.CheckRights(rbac.Manager, asked, false)
	}
	if err != nil {
		t.Error(err)
	}
	w.nobodyIsTold(t)
}

// TestSmokeNativeRights: for the native dialect alone, what config/install holds is enough.
func TestSmokeNativeRights(t *testing.T) {
	w := newWorld(t, dialects.Native)
	w.apply(`{apiVersion: v1, kind: Namespace, metadata: {name: ` + team + `}}`)
	w.native()
	w.restart()
	w.apply(nativeSet("later", "OnDelete", "registry.local/a:1"))
	w.number(nativeSet("later", "OnDelete", "registry.local/a:1"), nodes, "status", "numberReady")
	asked, err := harness.AskedBy(w.AuditLog(), rbac.User(rbac.Manager))
	if err != nil {
		t.Fatal(err)
	}
	roles := slices.DeleteFunc(dialects.Roles(), func(r rbac.Role) bool { return r.Name != rbac.Manager })
	if len(roles) != 2 { // one in the whole cluster, and one in its own namespace
		t.Fatalf("the roles %v", roles)
	}
	if err := harness.CheckRoles(rbac.Manager, asked, roles); err != nil {
		t.Error(err)
	}
}

// TestManager has a manager do everything that it can do, and looks at what it has asked and told meanwhile.
func TestManager(t *testing.T) {
	w := newWorld(t, localplane.Dialects()...)
	w.useEverything()
	t.Run("the rights are those that are used", func(t *testing.T) {
		asked, err := harness.AskedBy(w.AuditLog(), rbac.User(rbac.Manager))
		if err == nil {
			err = harness.CheckRights(rbac.Manager, asked, true)
		}
		if err != nil {
			t.Error(err)
		}
		// The simulated agents do but a part of what real ones do (test/agent), with the same rights.
		asked, err = harness.AskedBy(w.AuditLog(), rbac.User(rbac.Agent))
		if err == nil {
			err = harness.CheckRights(rbac.Agent, asked, false)
		}
		if err != nil {
			t.Error(err)
		}
	})
	t.Run("nobody is told a secret", func(t *testing.T) { w.nobodyIsTold(t) })
}

// protectedSetsStay: see test/manifests for all cases; here the API server itself is asked.
func (w *world) protectedSetsStay(t *testing.T) {
	for _, text := range []string{nativeSet("protected", "OnDelete", "registry.local/a:1"), advancedSet("protected", "registry.local/a:1", "10m")} {
		o := w.object(text)
		w.apply(text)
		w.number(text, nodes, "status", "currentNumberScheduled")
		w.cannotGo(t, o, kruise.ProtectCascading, fmt.Sprintf("which are on %d nodes", nodes))
		// The remedy that the message names.
		w.label(o, `null`)
		w.remove(text, metav1.DeletePropagationForeground)
	}
	// Always protects a set without pods as well, which Cascading lets go.
	for _, o := range []*unstructured.Unstructured{w.object(unplaced("always", kruise.Group+"/v1beta1")), w.object(unplaced("always", "apps/v1"))} {
		data, err := o.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		w.apply(string(data))
		w.cannotGo(t, o, kruise.ProtectAlways, "is Always")
		w.label(o, `"`+kruise.ProtectCascading+`"`)
		w.remove(string(data), metav1.DeletePropagationForeground)
	}
}

// cannotGo gives a set the label, and deletes it in vain, alone and with others.
func (w *world) cannotGo(t *testing.T, o *unstructured.Unstructured, label, why string) {
	t.Helper()
	w.label(o, `"`+label+`"`)
	sets := w.of(o)
	for what, err := range map[string]error{
		"one":  sets.Delete(t.Context(), o.GetName(), metav1.DeleteOptions{}),
		"many": sets.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: kruise.DeleteProtection}),
	} {
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), why) {
			t.Errorf("%s, %s: deleting %s gives %v", o.GetAPIVersion(), label, what, err)
		}
	}
	if found, err := sets.Get(t.Context(), o.GetName(), metav1.GetOptions{}); err != nil || found.GetDeletionTimestamp() != nil {
		t.Errorf("%s, %s: it goes: %v", o.GetAPIVersion(), label, err)
	}
}

// label gives a set the label of protection; null takes it away.
func (w *world) label(o *unstructured.Unstructured, value string) {
	w.t.Helper()
	patch := []byte(`{"metadata":{"labels":{"` + kruise.DeleteProtection + `":` + value + `}}}`)
	if _, err := w.of(o).Patch(w.t.Context(), o.GetName(), types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// nobodyIsTold looks for what is secret in everything that anybody else can read.
func (w *world) nobodyIsTold(t *testing.T) {
	secrets := map[string]string{"the password": password, "the password in base64": base64.StdEncoding.EncodeToString([]byte(dockerConfig))[40:80], "its auth": "YW5uOnBsYW50ZWQ"}
	key := w.webhookKey(t)
	secrets["the key of the webhooks"] = strings.Split(string(key), "\n")[3]
	secrets["the key in base64"] = base64.StdEncoding.EncodeToString(key)[200:260]
	token, withToken := w.managerWithToken(t)
	secrets["the token of a manager"] = token
	for what, secret := range secrets {
		if len(secret) < 15 {
			t.Fatalf("%s is %q, which is not much to look for", what, secret)
		}
	}
	told := w.told(t)
	told["the log of a manager with a token"] = withToken
	told["the dumps in the log of manager"] = undumped(told["the log of manager"])
	if !strings.Contains(told["the log of manager"], "Response Body") {
		t.Errorf("the manager does not log all that it could")
	}
	for where, text := range told {
		if text == "" {
			t.Errorf("%s is empty, so nothing was looked for in it", where)
		}
		for what, secret := range secrets {
			if i := strings.Index(text, secret); i >= 0 {
				t.Errorf("%s is in %s: …%s", what, where, text[max(0, i-200):i])
			}
		}
	}
}

// undumped is the text of what a log holds as hexadecimal dumps, which are cut every 16 bytes.
func undumped(log string) string {
	var text strings.Builder
	for _, row := range regexp.MustCompile(`(?m)\|(.{1,16})\|$`).FindAllStringSubmatch(log, -1) {
		text.WriteString(row[1])
	}
	return text.String()
}

// webhookKey is the key of the webhooks.
func (w *world) webhookKey(t *testing.T) []byte {
	t.Helper()
	secret, err := w.client.CoreV1().Secrets("everynode-system").Get(t.Context(), "everynode-webhook-certs", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	key := secret.Data[corev1.TLSPrivateKeyKey]
	if block, _ := pem.Decode(key); block == nil {
		t.Fatalf("the key is no PEM, but has %d bytes", len(key))
	}
	return key
}

// told is everything that is told, by where that is.
func (w *world) told(t *testing.T) map[string]string {
	t.Helper()
	told := map[string]string{}
	logs, err := filepath.Glob(filepath.Join(filepath.Dir(w.Log("manager")), "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range logs {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) > 0 {
			told["the log of "+strings.TrimSuffix(filepath.Base(name), ".log")] = string(data)
		}
	}
	metrics, err := w.MetricsURL(harness.ManagerComponent)
	if err != nil {
		t.Fatal(err)
	}
	told["the metrics"] = w.read(t, metrics)
	lists, err := w.client.Discovery().ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.APIResources {
			if !slices.Contains(r.Verbs, "list") || r.Name == "secrets" {
				continue
			}
			all, err := w.dynamic.Resource(group.WithResource(r.Name)).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatalf("%s: %v", r.Name, err)
			}
			if meta.LenList(all) == 0 {
				continue
			}
			data, err := all.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			told[r.Name+"."+group.Group] = string(data)
		}
	}
	for _, where := range []string{"the log of manager", "nodeimages." + kruise.Group, "events.", "daemonsets.apps"} {
		if told[where] == "" {
			t.Errorf("there is no %s", where)
		}
	}
	return told
}

func (w *world) read(t *testing.T, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return string(data)
}
