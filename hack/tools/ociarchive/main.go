// SPDX-License-Identifier: Apache-2.0

// Command ociarchive makes an image of a program without a daemon, for several platforms at once, and writes it as an OCI archive.
//
//	ociarchive -name everynode-manager -version v1.2.3 -licence LICENSE -out manager.tar linux/amd64=FILE linux/arm64=FILE
//
// An image holds the static program, a user to run it as who is not root, and the licence, and nothing else. The same files give the same archive,
// byte by byte: nothing in it depends on the time or on who makes it.
package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user is the user that runs the program unless a pod sets another one: not root.
const user = "65532:65532"

// recipe says what the image is made from.
type recipe struct {
	name, version string
	licence       string
	// programs are the files of the program by platform, in the order of the arguments.
	programs []program
}

type program struct{ os, arch, file string }

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "ociarchive:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	r := recipe{}
	flags := flag.NewFlagSet("ociarchive", flag.ContinueOnError)
	flags.StringVar(&r.name, "name", "", "the name of the image, and of the program in it")
	flags.StringVar(&r.version, "version", "", "the tag of the image")
	flags.StringVar(&r.licence, "licence", "LICENSE", "the file with the licence")
	out := flags.String("out", "", "the file to write")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if r.name == "" || r.version == "" || *out == "" || flags.NArg() == 0 {
		return errors.New("give -name, -version, -out, and for each platform OS/ARCH=FILE")
	}
	for _, arg := range flags.Args() {
		platform, file, _ := strings.Cut(arg, "=")
		system, arch, _ := strings.Cut(platform, "/")
		if system == "" || arch == "" || file == "" {
			return fmt.Errorf("%q is not a program of a platform: write OS/ARCH=FILE, such as linux/amd64=bin/%s", arg, r.name)
		}
		r.programs = append(r.programs, program{system, arch, file})
	}
	return r.write(*out)
}

// write creates the archive. An existing file is replaced only by a complete one.
func (r *recipe) write(out string) error {
	dir, err := os.MkdirTemp(filepath.Dir(out), ".layout-")
	if err != nil {
		return fmt.Errorf("making a directory for the parts of the image: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	index, err := r.index()
	if err != nil {
		return err
	}
	parts := filepath.Join(dir, "layout")
	at, err := layout.Write(parts, empty.Index)
	if err != nil {
		return fmt.Errorf("writing the image: %w", err)
	}
	// The specification requires the first; ctr and crictl name the image after the second.
	err = at.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": r.version,
		"io.containerd.image.name":          "docker.io/library/" + r.name + ":" + r.version,
	}))
	if err != nil {
		return fmt.Errorf("writing the image: %w", err)
	}
	archive := filepath.Join(dir, "archive")
	if err := pack(archive, os.DirFS(parts)); err != nil {
		return fmt.Errorf("packing the image: %w", err)
	}
	return os.Rename(archive, out)
}

// index is the image for all platforms.
func (r *recipe) index() (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range r.programs {
		image, err := r.image(p)
		if err != nil {
			return nil, fmt.Errorf("making the image of %s: %w", p.file, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.os, Architecture: p.arch}},
		})
	}
	return index, nil
}

// image is the image for one platform.
func (r *recipe) image(p program) (v1.Image, error) {
	files, err := r.files(p)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: madeAt()}, CreatedBy: "ociarchive"}}); err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = p.os, p.arch, v1.Time{Time: madeAt()}
	config.Config = v1.Config{
		Entrypoint: []string{"/" + r.name}, User: user, WorkingDir: "/", Env: []string{"PATH=/"},
		Labels: map[string]string{
			"org.opencontainers.image.title": r.name, "org.opencontainers.image.version": r.version, "org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	return mutate.ConfigFile(image, config)
}

// madeAt is the creation time of everything, because the same files must give the same image on every day.
func madeAt() time.Time { return time.Unix(0, 0).UTC() }

// files are what the image holds, as a tar archive.
func (r *recipe) files(p program) ([]byte, error) {
	binary, err := os.ReadFile(p.file)
	if err != nil {
		return nil, err
	}
	licence, err := os.ReadFile(r.licence)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range []struct {
		name string
		mode int64
		data []byte
	}{
		{"LICENSE", 0o644, licence},
		{"etc/", 0o755, nil},
		{"etc/passwd", 0o644, []byte("root:x:0:0:root:/:/\nnonroot:x:65532:65532:nonroot:/:/\n")},
		{r.name, 0o755, binary},
	} {
		if err := add(w, f.name, f.mode, f.data); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), w.Close()
}

func add(w *tar.Writer, name string, mode int64, data []byte) error {
	h := &tar.Header{Name: name, Mode: mode, Size: int64(len(data)), ModTime: madeAt(), Format: tar.FormatUSTAR}
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}

// pack packs a directory; its files come in the order of their names.
func pack(out string, dir fs.FS) error {
	file, err := os.Create(out)
	if err != nil {
		return err
	}
	w := tar.NewWriter(file)
	err = fs.WalkDir(dir, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil || name == ".":
			return err
		case entry.IsDir():
			return add(w, name+"/", 0o755, nil)
		}
		data, err := fs.ReadFile(dir, name)
		if err != nil {
			return err
		}
		return add(w, name, 0o644, data)
	})
	return errors.Join(err, w.Close(), file.Close())
}
