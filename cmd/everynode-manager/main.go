// SPDX-License-Identifier: Apache-2.0

// Command everynode-manager runs Everynode's controllers.
package main

import (
	_ "github.com/spf13/cobra"
	_ "k8s.io/api/apps/v1"
	_ "k8s.io/apimachinery/pkg/util/dump"
	_ "k8s.io/apimachinery/pkg/util/resourceversion"
	_ "k8s.io/client-go/dynamic/dynamicinformer"
	_ "k8s.io/client-go/informers"
	_ "k8s.io/client-go/kubernetes"
	_ "k8s.io/component-base/cli/flag"
	_ "k8s.io/component-base/featuregate"
	_ "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-helpers/scheduling/corev1"
	_ "k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	_ "k8s.io/klog/v2"
	_ "sigs.k8s.io/controller-runtime"
	_ "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	_ "sigs.k8s.io/yaml"
)

func main() {}
