// SPDX-License-Identifier: Apache-2.0

package doctor_test

import (
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"everynode.dev/everynode/internal/cli/doctor"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

// controllerManager is a kube-controller-manager in a pod.
func controllerManager(name string, flags ...string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name, Labels: map[string]string{"component": "kube-controller-manager"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "kube-controller-manager", Command: append([]string{"kube-controller-manager"}, flags...)}}},
	}
}

// foreignDefinition is a definition of OpenKruise.
func foreignDefinition() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "daemonsets.apps.kruise.io"},
	}}
}

func TestBeforeInstall(t *testing.T) {
	const first = "do not install yet: first do what is listed above"
	off := "--controllers=*,-daemonset"
	for name, c := range map[string]struct {
		objects []runtime.Object
		refuse  bool
		want    string
	}{
		"install-managed":    {},
		"install-native-on":  {objects: []runtime.Object{controllerManager("kcm-1", "--controllers=*,bootstrapsigner")}},
		"install-native-off": {objects: []runtime.Object{controllerManager("kcm-1", off), controllerManager("kcm-2", off)}},
		"install-mixed":      {objects: []runtime.Object{controllerManager("kcm-1", off), controllerManager("kcm-2")}, want: first},
		"install-kruise":     {objects: []runtime.Object{foreignDefinition()}},
		"install-no-rights":  {refuse: true, want: first},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := fakecluster.New(t, c.objects...)
			cluster.Kubernetes.PrependReactor("create", "selfsubjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
				review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview).DeepCopy()
				review.Status.Allowed = !c.refuse
				return true, review, nil
			})
			err := cluster.Run(t, doctor.New, "--before-install")
			if (err == nil) != (c.want == "") || err != nil && (options.Code(err) != options.ExitError || err.Error() != c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			fakecluster.Golden(t, *update, name+".txt", cluster.Out.String())
		})
	}
}

// TestBeforeInstallAndUninstall: one of them at a time.
func TestBeforeInstallAndUninstall(t *testing.T) {
	if err := fakecluster.New(t).Run(t, doctor.New, "--before-install", "--before-uninstall"); err == nil {
		t.Error("both flags are accepted")
	}
}
