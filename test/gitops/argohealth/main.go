// SPDX-License-Identifier: Apache-2.0

// Command argohealth prints the health that Argo CD computes in Go, for kinds of Kubernetes. It reads objects as JSON, one a line, and writes a word for each. It is a module of
// its own, because the code of Argo CD that can be had as a module is built with Kubernetes 1.23.
package main

import (
	"bufio"
	"fmt"
	"os"

	"github.com/argoproj/gitops-engine/pkg/health"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		obj := &unstructured.Unstructured{}
		if err := obj.UnmarshalJSON(lines.Bytes()); err != nil {
			fail(err)
		}
		is, err := health.GetResourceHealth(obj, nil)
		if err != nil {
			fail(err)
		}
		fmt.Println(is.Status)
	}
	if err := lines.Err(); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "argohealth:", err)
	os.Exit(1)
}
