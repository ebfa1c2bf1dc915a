package upstream

import (
	"testing"

	_ "k8s.io/kubernetes/test/e2e/apps"
	_ "k8s.io/kubernetes/test/e2e/framework"
)

func TestX(t *testing.T) {}
