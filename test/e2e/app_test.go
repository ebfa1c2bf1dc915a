// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"everynode.dev/everynode/test/harness"
)

// port is where the application listens, and sidePort where it does in a second container.
const (
	port     = 8080
	sidePort = 8081
)

// Where the files of a test are: on the node, as the node sees it, and in its containers.
const (
	srv      = "/srv"
	journals = "/journals"
)

// side is the name of the second container, where there is one.
const side = "side"

// directory is the directory of a test on a node, below the disk of the node.
func directory(namespace string) string { return srv + "/e2e/" + namespace }

// application makes the container of a set the application, which keeps its journal on the node.
func application(namespace string) harness.Edit {
	return func(ds *appsv1.DaemonSet) {
		spec := &ds.Spec.Template.Spec
		spec.TerminationGracePeriodSeconds = new(int64(10))
		spec.Volumes = []corev1.Volume{{Name: "journals", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{
			Path: directory(namespace), Type: new(corev1.HostPathDirectoryOrCreate),
		}}}}
		spec.Containers = []corev1.Container{container(set, port)}
	}
}

// container is one that runs the application.
func container(name string, at int32) corev1.Container {
	field := func(variable, path string) corev1.EnvVar {
		return corev1.EnvVar{Name: variable, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
	}
	return corev1.Container{
		Name: name, Image: one, ImagePullPolicy: corev1.PullIfNotPresent,
		Ports: []corev1.ContainerPort{{ContainerPort: at}},
		Env: []corev1.EnvVar{
			field("POD", "metadata.name"), field("POD_UID", "metadata.uid"), field("NODE", "spec.nodeName"),
			{Name: "PORT", Value: strconv.Itoa(int(at))}, {Name: "CONTAINER", Value: name},
			{Name: "JOURNAL", Value: journals + "/journal"}, {Name: "LOCK", Value: journals + "/" + name + ".lock"},
		},
		VolumeMounts: []corev1.VolumeMount{{Name: "journals", MountPath: journals}},
		ReadinessProbe: &corev1.Probe{
			PeriodSeconds: 1, TimeoutSeconds: 5,
			ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/ready", Port: intstr.FromInt32(at)}},
		},
	}
}

// withSide adds a second container.
func withSide(ds *appsv1.DaemonSet) {
	spec := &ds.Spec.Template.Spec
	spec.Containers = append(spec.Containers, container(side, sidePort))
}

// withEnv sets a variable of the first container.
func withEnv(name, value string) harness.Edit {
	return func(ds *appsv1.DaemonSet) {
		first := &ds.Spec.Template.Spec.Containers[0]
		first.Env = append(first.Env, corev1.EnvVar{Name: name, Value: value})
	}
}

// withoutLock lets two run side by side, as a surge wants it.
func withoutLock(ds *appsv1.DaemonSet) {
	first := &ds.Spec.Template.Spec.Containers[0]
	for i := range first.Env {
		if first.Env[i].Name == "LOCK" {
			first.Env[i].Value = ""
		}
	}
}

// stopsAfter has the application answer for a while after it was told to stop, as who is behind a Service has to: the nodes hear
// later of it than the application itself.
func stopsAfter(d time.Duration) harness.Edit { return withEnv("STOP_DELAY", d.String()) }

// readyAfter has the application take its time at the start.
func readyAfter(d time.Duration) harness.Edit { return withEnv("READY_DELAY", d.String()) }
