// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	criclient "k8s.io/cri-client/pkg"
)

// The labels with which the kubelet marks its containers.
const (
	labelPodUID    = "io.kubernetes.pod.uid"
	labelContainer = "io.kubernetes.container.name"
)

// Container is a container of a pod.
type Container struct{ ID, Name, PodUID string }

// Stop stops a container that runs, and waits until it has ended. It is an error if the ID is that of another
// container: the data in a pod's own status must not be enough to stop containers of other pods. A container
// that is gone, or has ended, needs no stop.
func (c *Client) Stop(ctx context.Context, container Container, grace time.Duration) error {
	containers, err := c.connectRuntime(ctx)
	if err != nil {
		return err
	}
	is, err := statusOf(ctx, containers, container, false)
	if err != nil || is.GetStatus().GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
		return err
	}
	if err := containers.StopContainer(quiet(ctx), container.ID, int64(grace.Seconds())); err != nil && status.Code(err) != codes.NotFound {
		return fmt.Errorf("stopping container %s: %w", container.ID, err)
	}
	return nil
}

// Environment returns the environment variables of a container that runs, by name; nil if it does not run, or if the runtime does not say. Runtimes say more than
// the interface requires in a text of their own: that of containerd and of CRI-O has the process as the OCI runtime specification describes it.
func (c *Client) Environment(ctx context.Context, container Container) (map[string]string, error) {
	containers, err := c.connectRuntime(ctx)
	if err != nil {
		return nil, err
	}
	is, err := statusOf(ctx, containers, container, true)
	if err != nil || is.GetStatus().GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
		return nil, err
	}
	info := struct {
		RuntimeSpec struct {
			Process struct {
				Env []string `json:"env"`
			} `json:"process"`
		} `json:"runtimeSpec"`
	}{}
	if json.Unmarshal([]byte(is.GetInfo()["info"]), &info) != nil || info.RuntimeSpec.Process.Env == nil {
		return nil, nil
	}
	variables := map[string]string{}
	for _, one := range info.RuntimeSpec.Process.Env {
		name, value, _ := strings.Cut(one, "=")
		variables[name] = value
	}
	return variables, nil
}

// statusOf returns the status of a container, or nil if it is gone. It is an error if the ID is that of another container.
func statusOf(ctx context.Context, containers internalapi.RuntimeService, container Container, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	answer, err := containers.ContainerStatus(quiet(ctx), container.ID, verbose)
	if status.Code(err) == codes.NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("getting the status of container %s: %w", container.ID, err)
	}
	if labels := answer.GetStatus().GetLabels(); labels[labelPodUID] != container.PodUID || labels[labelContainer] != container.Name {
		return nil, fmt.Errorf("container %s is not %s of the pod with UID %s", container.ID, container.Name, container.PodUID)
	}
	return answer, nil
}

// connectRuntime is connect for the service of containers.
func (c *Client) connectRuntime(ctx context.Context) (internalapi.RuntimeService, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.containers != nil {
		return c.containers, nil
	}
	containers, err := criclient.NewRemoteRuntimeServiceBuilder().WithEndpoint(c.endpoint).WithConnectionTimeout(callTimeout).
		WithTracerProvider(nil).Build(quiet(ctx))
	if err != nil {
		return nil, fmt.Errorf("connecting to the container runtime: %w", err)
	}
	c.containers = containers
	return containers, nil
}
