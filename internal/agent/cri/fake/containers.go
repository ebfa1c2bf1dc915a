// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"context"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Run starts a container.
func (r *Runtime) Run(id string, labels map[string]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.containers[id] = &runtimeapi.ContainerStatus{
		Id: id, Metadata: &runtimeapi.ContainerMetadata{Name: id}, State: runtimeapi.ContainerState_CONTAINER_RUNNING, Labels: labels, CreatedAt: 1, StartedAt: 1,
		Image: &runtimeapi.ImageSpec{Image: "image"}, ImageRef: "image",
	}
}

// Inform sets the text that a verbose status of a container has.
func (r *Runtime) Inform(id, info string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.info[id] = info
}

// Stops returns the requested stops, in order.
func (r *Runtime) Stops() []*runtimeapi.StopContainerRequest {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.stops)
}

// Version implements the service.
func (r *Runtime) Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{Version: "0.1.0", RuntimeName: "fake", RuntimeVersion: "1", RuntimeApiVersion: "v1"}, nil
}

// ContainerStatus implements the service.
func (r *Runtime) ContainerStatus(_ context.Context, request *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.containers[request.GetContainerId()]
	if c == nil {
		return nil, status.Errorf(codes.NotFound, "there is no container %s", request.GetContainerId())
	}
	answer := &runtimeapi.ContainerStatusResponse{Status: c}
	if request.GetVerbose() {
		answer.Info = map[string]string{"info": r.info[c.GetId()]}
	}
	return answer, nil
}

// StopContainer implements the service.
func (r *Runtime) StopContainer(_ context.Context, request *runtimeapi.StopContainerRequest) (*runtimeapi.StopContainerResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stops = append(r.stops, request)
	if c := r.containers[request.GetContainerId()]; c != nil {
		c.State, c.FinishedAt, c.Reason = runtimeapi.ContainerState_CONTAINER_EXITED, 2, "Completed"
	}
	return &runtimeapi.StopContainerResponse{}, nil
}
