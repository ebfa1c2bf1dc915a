// SPDX-License-Identifier: Apache-2.0

// Package fake is a container runtime for tests at a socket. Its images and containers have no content, and the test
// decides the result of a pull.
package fake

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Runtime is a runtime. Create it with New, and set Answer before you start it.
type Runtime struct {
	runtimeapi.UnimplementedImageServiceServer
	runtimeapi.UnimplementedRuntimeServiceServer
	// Answer returns the result of a pull; nil means success. It may block, and must return when ctx ends.
	Answer func(ctx context.Context, request *runtimeapi.PullImageRequest) error
	// Mountpoint is the mount point of the image file system that the runtime reports.
	Mountpoint string

	mu     sync.Mutex
	images map[string]bool
	pulls  []*runtimeapi.PullImageRequest
	active int
	most   int
	server *grpc.Server

	containers map[string]*runtimeapi.ContainerStatus
	info       map[string]string
	stops      []*runtimeapi.StopContainerRequest
}

// New returns a runtime with some images.
func New(images ...string) *Runtime {
	r := &Runtime{images: map[string]bool{}, containers: map[string]*runtimeapi.ContainerStatus{}, info: map[string]string{}, Mountpoint: "/"}
	for _, image := range images {
		r.images[image] = true
	}
	return r
}

// Start serves at a socket path that must not exist or be unused.
func (r *Runtime) Start(socket string) error {
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing the socket of before: %w", err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	server := grpc.NewServer()
	runtimeapi.RegisterImageServiceServer(server, r)
	runtimeapi.RegisterRuntimeServiceServer(server, r)
	r.mu.Lock()
	r.server = server
	r.mu.Unlock()
	go func() { _ = server.Serve(listener) }() // it ends with Stop, and its error is not useful then
	return nil
}

// Stop stops the runtime like a crash: pulls get no response.
func (r *Runtime) Stop() {
	r.mu.Lock()
	server := r.server
	r.mu.Unlock()
	if server != nil {
		server.Stop()
	}
}

// Pulls returns the requested pulls, in order.
func (r *Runtime) Pulls() []*runtimeapi.PullImageRequest {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*runtimeapi.PullImageRequest{}, r.pulls...)
}

// Most returns the highest number of concurrent pulls.
func (r *Runtime) Most() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.most
}

// PullImage implements the service.
func (r *Runtime) PullImage(ctx context.Context, request *runtimeapi.PullImageRequest) (*runtimeapi.PullImageResponse, error) {
	r.mu.Lock()
	r.pulls = append(r.pulls, request)
	r.active++
	r.most = max(r.most, r.active)
	r.mu.Unlock()
	var err error
	if r.Answer != nil {
		err = r.Answer(ctx, request)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.active--
	if err != nil {
		return nil, err
	}
	name := request.GetImage().GetImage()
	r.images[name] = true
	return &runtimeapi.PullImageResponse{ImageRef: id(name)}, nil
}

// ImageStatus implements the service.
func (r *Runtime) ImageStatus(_ context.Context, request *runtimeapi.ImageStatusRequest) (*runtimeapi.ImageStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := request.GetImage().GetImage()
	if !r.images[name] {
		return &runtimeapi.ImageStatusResponse{}, nil
	}
	return &runtimeapi.ImageStatusResponse{Image: &runtimeapi.Image{Id: id(name), RepoTags: []string{name}, Size: 1}}, nil
}

// ImageFsInfo implements the service.
func (r *Runtime) ImageFsInfo(context.Context, *runtimeapi.ImageFsInfoRequest) (*runtimeapi.ImageFsInfoResponse, error) {
	return &runtimeapi.ImageFsInfoResponse{ImageFilesystems: []*runtimeapi.FilesystemUsage{{
		FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: r.Mountpoint},
	}}}, nil
}

func id(name string) string { return "id-of-" + name }
