// SPDX-License-Identifier: Apache-2.0

package native

import (
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialect/base"
)

// Name is the name of the dialect.
const Name = "native"

// Registration is the dialect.
func Registration() dialect.Registration {
	return dialect.Registration{Name: Name, Default: true, Does: "keeps the pods of DaemonSets of apps/v1", New: newDialect}
}

func newDialect(s dialect.Setting) dialect.Dialect {
	d := base.DaemonSets(Name, s)
	d.Source.Digest, d.StatusPatch = Digest, StatusPatch
	return d
}
