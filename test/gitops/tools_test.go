// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	lua "github.com/yuin/gopher-lua"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/resource"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/kubectl/pkg/cmd/wait"
	"k8s.io/kubectl/pkg/polymorphichelpers"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/config"
)

// defaultOfStatus is the status of an object that no manager has seen, by the definition in that file.
func defaultOfStatus(t *testing.T, file string) []byte {
	t.Helper()
	data, err := config.Kruise.ReadFile(file)
	if err != nil {
		data, err = config.Policy.ReadFile(file)
	}
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(data, crd); err != nil {
		t.Fatal(err)
	}
	for _, v := range crd.Spec.Versions {
		if d := v.Schema.OpenAPIV3Schema.Properties["status"].Default; v.Storage && d != nil {
			return d.Raw
		}
	}
	t.Fatalf("%s has no default for the status", file)
	return nil
}

// kstatus is what Flux and Helm 4 say of an object.
func kstatus(t *testing.T, obj *unstructured.Unstructured) string {
	t.Helper()
	result, err := status.Compute(obj)
	if err != nil {
		t.Fatalf("%s: %v", obj.GetKind(), err)
	}
	return result.Status.String()
}

// clientGetter is for clients that are never used.
func clientGetter() genericclioptions.RESTClientGetter {
	nowhere := clientcmd.NewDefaultClientConfig(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"c": {Server: "http://127.0.0.1:1"}}, Contexts: map[string]*clientcmdapi.Context{"c": {Cluster: "c"}}, CurrentContext: "c",
	}, nil)
	return genericclioptions.NewTestConfigFlags().WithClientConfig(nowhere).WithRESTMapper(meta.NewDefaultRESTMapper(nil))
}

// kubectlWait is whether kubectl wait --for=condition=Ready returns.
func kubectlWait(t *testing.T, obj *unstructured.Unstructured) string {
	t.Helper()
	gvk := obj.GroupVersionKind()
	plural, _ := meta.UnsafeGuessKindToResource(gvk)
	flags := wait.NewWaitFlags(clientGetter(), genericiooptions.NewTestIOStreamsDiscard())
	flags.ForCondition, flags.Timeout = []string{"condition=Ready"}, 0
	o, err := flags.ToOptions(nil)
	if err != nil {
		t.Fatal(err)
	}
	o.DynamicClient = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{plural: gvk.Kind + "List"}, obj.DeepCopy())
	info := &resource.Info{Namespace: obj.GetNamespace(), Name: obj.GetName(), Mapping: &meta.RESTMapping{Resource: plural, GroupVersionKind: gvk}}
	if _, done, _ := o.ConditionFn[0](t.Context(), info, o); done {
		return "returns"
	}
	return "waits"
}

// rolloutStatus is what kubectl rollout status does.
func rolloutStatus(t *testing.T, obj *unstructured.Unstructured) string {
	t.Helper()
	viewer, err := polymorphichelpers.StatusViewerFn(&meta.RESTMapping{GroupVersionKind: obj.GroupVersionKind()})
	if err != nil {
		return "not supported"
	}
	switch _, done, err := viewer.Status(obj, 0); {
	case err != nil:
		return "error"
	case done:
		return "returns"
	default:
		return "waits"
	}
}

// script is a health script of Argo CD.
type script string

// argo is the health of an object in Argo CD, with a script for its kind. Argo CD asks no script about an object that is being deleted, and takes one that
// fails for an unknown health.
func argo(t *testing.T, obj *unstructured.Unstructured, with script) string {
	t.Helper()
	if obj.GetDeletionTimestamp() != nil {
		return "Progressing"
	}
	is, message, err := with.run(obj)
	switch {
	case err != nil:
		return "Unknown (the script fails)"
	case message == "":
		t.Errorf("%s: %s without a message", obj.GetKind(), is)
	}
	return is
}

// run runs the script as Argo CD does: with the libraries package, base and table, and the object as the variable obj.
func (s script) run(obj *unstructured.Unstructured) (is, message string, err error) {
	l := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer l.Close()
	for name, open := range map[string]lua.LGFunction{lua.LoadLibName: lua.OpenPackage, lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable} {
		if err := l.CallByParam(lua.P{Fn: l.NewFunction(open), Protect: true}, lua.LString(name)); err != nil {
			return "", "", err
		}
	}
	l.SetGlobal("obj", luaOf(l, obj.Object))
	if err := l.DoString(string(s)); err != nil {
		return "", "", err
	}
	answer, isTable := l.Get(-1).(*lua.LTable)
	if !isTable {
		return "", "", errors.New("the script returns no table")
	}
	return answer.RawGetString("status").String(), answer.RawGetString("message").String(), nil
}

// luaOf is a value of JSON in Lua.
func luaOf(l *lua.LState, value any) lua.LValue {
	switch v := value.(type) {
	case bool:
		return lua.LBool(v)
	case string:
		return lua.LString(v)
	case int64:
		return lua.LNumber(v)
	case float64:
		return lua.LNumber(v)
	case []any:
		table := l.CreateTable(len(v), 0)
		for _, item := range v {
			table.Append(luaOf(l, item))
		}
		return table
	case map[string]any:
		table := l.CreateTable(0, len(v))
		for key, item := range v {
			table.RawSetString(key, luaOf(l, item))
		}
		return table
	default:
		return lua.LNil
	}
}

// ours is a script of this repository.
func ours(t *testing.T, kind string) script {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "contrib", "argocd", filepath.FromSlash(kind), "health.lua"))
	if err != nil {
		t.Fatal(err)
	}
	return script(data)
}

// The version of Argo CD of which the built-in script is run, and the checksum of its module. It is downloaded, because this module would otherwise be built
// from some forty newer versions of other modules, only to read one file.
const (
	argoVersion = "v3.5.7"
	argoSum     = "h1:Xm1BF+I5OgDKUG3SDK49vn2/Y5AMyaNVko+/JT08gj0="
)

// builtIn returns the script that Argo CD has for a kind. Without a network, the test is skipped.
func builtIn(t *testing.T, kind string) script {
	t.Helper()
	dir, err := argoSource()
	if err != nil {
		t.Skipf("Argo CD cannot be downloaded: run go mod download github.com/argoproj/argo-cd/v3@%s with a network: %v", argoVersion, err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "resource_customizations", filepath.FromSlash(kind), "health.lua"))
	if err != nil {
		t.Fatal(err)
	}
	return script(data)
}

// argoSource is where the source of Argo CD is.
var argoSource = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "mod", "download", "-json", "github.com/argoproj/argo-cd/v3@"+argoVersion).Output() //nolint:noctx // the go command has its own timeouts
	var module struct{ Dir, Sum, Error string }
	if parseErr := json.Unmarshal(out, &module); parseErr != nil {
		return "", errors.Join(err, parseErr)
	}
	if module.Dir == "" {
		return "", errors.New(module.Error)
	}
	if module.Sum != argoSum {
		return "", fmt.Errorf("the module has the checksum %s, want %s", module.Sum, argoSum)
	}
	return module.Dir, nil
})

// argoInGo is the health of objects in Argo CD, for the kinds whose health it computes in Go and with no script: argohealth has its code, and why it is a program.
func argoInGo(t *testing.T, objects []*unstructured.Unstructured) []string {
	t.Helper()
	var lines bytes.Buffer
	for _, obj := range objects {
		data, err := obj.MarshalJSON() // with an end of line
		if err != nil {
			t.Fatal(err)
		}
		lines.Write(data)
	}
	if out, err := exec.CommandContext(t.Context(), "go", "list", "-C", "argohealth", "-deps", ".").CombinedOutput(); err != nil {
		t.Skipf("gitops-engine of Argo CD cannot be downloaded: run go mod download in test/gitops/argohealth with a network: %v\n%s", err, out)
	}
	program := filepath.Join(t.TempDir(), "argohealth")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-C", "argohealth", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := exec.CommandContext(t.Context(), program)
	run.Stdin, run.Stderr = &lines, os.Stderr
	out, err := run.Output()
	if err != nil {
		t.Fatal(err)
	}
	answers := strings.Fields(string(out))
	if len(answers) != len(objects) {
		t.Fatalf("%d objects have %d answers", len(objects), len(answers))
	}
	return answers
}
