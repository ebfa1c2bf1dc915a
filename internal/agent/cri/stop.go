// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"fmt"
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
	answer, err := containers.ContainerStatus(quiet(ctx), container.ID, false)
	if status.Code(err) == codes.NotFound {
		return nil
	}
	if err != nil {
		return fmt.Errorf("getting the status of container %s: %w", container.ID, err)
	}
	is := answer.GetStatus()
	if is.GetLabels()[labelPodUID] != container.PodUID || is.GetLabels()[labelContainer] != container.Name {
		return fmt.Errorf("container %s is not %s of the pod with UID %s", container.ID, container.Name, container.PodUID)
	}
	if is.GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
		return nil
	}
	if err := containers.StopContainer(quiet(ctx), container.ID, int64(grace.Seconds())); err != nil && status.Code(err) != codes.NotFound {
		return fmt.Errorf("stopping container %s: %w", container.ID, err)
	}
	return nil
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
