// SPDX-License-Identifier: Apache-2.0

package apply

import "regexp"

// refusedAccount is how the API server names a service account that it refuses.
var refusedAccount = regexp.MustCompile(`User "system:serviceaccount:([a-z0-9-]+:[a-z0-9.-]+)" cannot `)

// RefusedAccount returns the service account that an answer of the API server refuses, as NAMESPACE:NAME, as kubectl create rolebinding takes it. The manager may be
// installed in any namespace. If the answer names none, it is the account that the manager has by default.
func RefusedAccount(err error) string {
	if found := refusedAccount.FindStringSubmatch(err.Error()); found != nil {
		return found[1]
	}
	return "everynode-system:everynode-manager"
}
