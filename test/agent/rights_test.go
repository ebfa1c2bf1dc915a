// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	yamlstream "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/config"
	"everynode.dev/everynode/internal/agent/cri/fake"
	"everynode.dev/everynode/test/harness"
)

// The service account of the agents, as in config/agent.
const (
	agentNamespace = "everynode-agents"
	agentAccount   = "everynode-agent"
)

// manifests are what is shipped for agents.
func manifests() ([]*unstructured.Unstructured, error) {
	files, err := fs.Glob(config.Agent, "agent/*.yaml")
	if err != nil {
		return nil, err
	}
	all := []*unstructured.Unstructured{}
	for _, file := range files {
		data, err := config.Agent.ReadFile(file)
		if err != nil {
			return nil, err
		}
		stream := yamlstream.NewYAMLOrJSONDecoder(bytes.NewReader(data), len(data))
		for {
			object := &unstructured.Unstructured{}
			if err := stream.Decode(&object.Object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("reading %s: %w", file, err)
			}
			all = append(all, object)
		}
	}
	return all, nil
}

// install applies what is shipped for agents.
func (w *world) install(ctx context.Context) error {
	all, err := manifests()
	if err != nil {
		return err
	}
	groups, err := restmapper.GetAPIGroupResources(discovery.NewDiscoveryClient(w.client.CoreV1().RESTClient()))
	if err != nil {
		return fmt.Errorf("asking for the resources: %w", err)
	}
	mapper := restmapper.NewDiscoveryRESTMapper(groups)
	for _, object := range all {
		kind := object.GroupVersionKind()
		mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			return err
		}
		data, err := object.MarshalJSON()
		if err != nil {
			return err
		}
		var resource dynamic.ResourceInterface = w.dynamic.Resource(mapping.Resource)
		if object.GetNamespace() != "" {
			resource = w.dynamic.Resource(mapping.Resource).Namespace(object.GetNamespace())
		}
		force := true
		if _, err := resource.Patch(ctx, object.GetName(), types.ApplyPatchType, data, metav1.PatchOptions{FieldManager: "test", Force: &force}); err != nil {
			return fmt.Errorf("applying %s %s: %w", kind.Kind, object.GetName(), err)
		}
	}
	return nil
}

// awaitPolicy waits until the policy for agents is at work, which is a while after it was applied.
func (w *world) awaitPolicy(ctx context.Context) error {
	c := rest.CopyConfig(w.RESTConfig())
	c.Impersonate.UserName = "system:serviceaccount:" + agentNamespace + ":" + agentAccount
	client, err := kubernetes.NewForConfig(c)
	for err == nil {
		_, refusal := client.CoreV1().Events(corev1.NamespaceDefault).Create(ctx, &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "e-"}, InvolvedObject: corev1.ObjectReference{Namespace: corev1.NamespaceDefault},
		}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if refusal != nil && strings.Contains(refusal.Error(), "names no node") {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			err = fmt.Errorf("waiting for the policy: the last answer was %w", refusal)
		}
	}
	return err
}

// tokenFor is a token as the pod of an agent on that node has it; without a node it is bound to nothing.
func tokenFor(t *testing.T, node string) string {
	t.Helper()
	request := &authenticationv1.TokenRequest{}
	if node != "" {
		made, err := plane.client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			made, err = plane.client.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{Kind: "Node", APIVersion: "v1", Name: node, UID: made.UID}
	}
	request, err := plane.client.CoreV1().ServiceAccounts(agentNamespace).CreateToken(t.Context(), agentAccount, request, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// withToken is the configuration of a client of the test that has nothing but a token.
func withToken(token string) *rest.Config {
	c := rest.AnonymousClientConfig(plane.RESTConfig())
	c.BearerToken, c.UserAgent = token, harness.UserAgent
	return c
}

// kubeconfig writes such a configuration, and returns the file.
func kubeconfig(t *testing.T, token string) string {
	t.Helper()
	return kubeconfigAt(t, token, plane.RESTConfig().Host)
}

// kubeconfigAt is the same for an API server that is reached at another address.
func kubeconfigAt(t *testing.T, token, host string) string {
	t.Helper()
	c := withToken(token)
	c.Host = host
	file := filepath.Join(t.TempDir(), "kubeconfig")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: c.Host, CertificateAuthorityData: c.CAData, CertificateAuthority: c.CAFile}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"a": {Token: token}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "a"}},
		CurrentContext: "x",
	}, file)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// refused checks that something was refused, and why.
func refused(t *testing.T, what string, err error, why string) {
	t.Helper()
	if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), why) {
		t.Errorf("%s: %v does not say %q", what, err, why)
	}
}

func TestAgentWritesAboutItsOwnNodeAlone(t *testing.T) {
	own, foreign := newNode(t, nil), newNode(t, nil)
	patch := func(token, name string, subresources ...string) error {
		client, err := dynamic.NewForConfig(withToken(token))
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.Resource(v1beta1.GroupVersion().WithResource(kruise.ResourceNodeImage)).Patch(t.Context(), name,
			types.MergePatchType, []byte(`{"status":{"desired":7}}`), metav1.PatchOptions{}, subresources...)
		return err
	}
	token := tokenFor(t, own.name)
	if err := patch(token, own.name, "status"); err != nil {
		t.Errorf("its own status: %v", err)
	}
	refused(t, "a foreign status", patch(token, foreign.name, "status"), "may not write the NodeImage "+foreign.name)
	refused(t, "its own specification", patch(token, own.name), "cannot patch resource")
	refused(t, "a token without a node", patch(tokenFor(t, ""), own.name, "status"), "names no node")
	if status, err := foreign.status(); err != nil || status.Desired != 0 {
		t.Errorf("the foreign status is %+v %v", status, err)
	}
}

func TestAgentTellsEventsInItsOwnNameAlone(t *testing.T) {
	own := newNode(t, nil)
	client, err := kubernetes.NewForConfig(withToken(tokenFor(t, own.name)))
	if err != nil {
		t.Fatal(err)
	}
	tell := func(host string) error {
		_, err := client.CoreV1().Events(corev1.NamespaceDefault).Create(t.Context(), &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "e-"}, Reason: "Test", Source: corev1.EventSource{Component: "everynode-agent", Host: host},
			InvolvedObject: corev1.ObjectReference{Kind: kruise.KindNodeImage, Name: own.name, Namespace: corev1.NamespaceDefault},
		}, metav1.CreateOptions{})
		return err
	}
	if err := tell(own.name); err != nil {
		t.Errorf("an event of its own: %v", err)
	}
	refused(t, "an event of another", tell("another"), "in the name of another")
	refused(t, "an event of nobody", tell(""), "in the name of another")
}

func TestAgentReadsSecretsOfOneNamespace(t *testing.T) {
	own := newNode(t, nil)
	secret(t, "readable", "r.io", "ann", "p")
	client, err := kubernetes.NewForConfig(withToken(tokenFor(t, own.name)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Secrets(kruise.PullSecretNamespace).Get(t.Context(), "readable", metav1.GetOptions{}); err != nil {
		t.Errorf("a pull secret: %v", err)
	}
	_, err = client.CoreV1().Secrets(kruise.PullSecretNamespace).List(t.Context(), metav1.ListOptions{})
	refused(t, "all pull secrets", err, "cannot list resource")
	_, err = client.CoreV1().Secrets(agentNamespace).Get(t.Context(), "x", metav1.GetOptions{})
	refused(t, "a secret of another namespace", err, "cannot get resource")
}

// An agent that runs under the name of another node learns what that node wants, but can tell nobody that it has done it.
func TestAgentUnderAForeignNameIsRefused(t *testing.T) {
	own := newNode(t, nil)
	foreign := newNode(t, map[string]v1beta1.ImageSpec{"r.io/app": tags("v1")})
	foreign.serve(fake.New())
	foreign.kubeconfig = kubeconfig(t, tokenFor(t, own.name))
	foreign.begin()
	for deadline := time.Now().Add(patience); !foreign.logged("may not write the NodeImage " + foreign.name); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			data, _ := os.ReadFile(foreign.log)
			t.Fatalf("nobody refuses it:\n%s", data)
		}
	}
	if status, err := foreign.status(); err != nil || status.Desired != 0 {
		t.Errorf("the foreign status is %+v %v", status, err)
	}
}
