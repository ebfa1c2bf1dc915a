// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"html"
	"iter"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// hidden stands for what is not told.
const hidden = "[hidden]"

// shortestSecret is the length from which on a secret is looked for: a shorter one would take common words out of a text. Of such a password only
// the base64 of it with its user is, as it is sent. shortestLine is the same for one line of a secret that has several. shortestPart is it for what
// is left of a secret that was cut, or of its base64: it is longer than names of projects, which are in keys as well as in the images that they are
// for.
const (
	shortestSecret = 4
	shortestLine   = 16
	shortestPart   = 32
)

// longestText is how much of a text is told, and how much of a secret parts are looked for of: what others say, or call a password, may be of any
// length, and the memory of an agent is small.
const longestText = 64 << 10

// What carries secrets, whoever made them. An address loses its user, and all behind a question mark: signatures and tokens stand there. In JSON its
// slashes may be escaped, and an ampersand is: \u0026.
var (
	users   = regexp.MustCompile(`(` + scheme + `)[^\s"'<>/?]*@`)
	queries = regexp.MustCompile(`(` + scheme + `(?:[^\s"'<>\\?]|` + escape + `)*\?)(?:[^\s"'<>\\]|` + escape + `)+`)
	headers = regexp.MustCompile(`(?i)\b(Bearer|Basic) +[A-Za-z0-9+/._~-]{8,}=*`)
	tokens  = regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){1,2}`) // a JSON web token
)

const (
	scheme = `[A-Za-z][A-Za-z0-9+.-]*:\\*/\\*/`
	escape = `\\+(?:/|u00[0-9A-Fa-f]{2})`
)

// assignments are the names behind which secrets stand, with their values. The challenge of a registry (Bearer realm="…") is none, nor are
// "token: unauthorized", the address in `Post "https://r.io/token": EOF` and the tag of an image that is called secret:v1.
var assignments = []*regexp.Regexp{
	regexp.MustCompile(`(?is)((?:` + naming + `|(?:\b|\\u0026)sig)(?:\\*["'])?=\s*)(?:` + quoted + `|[^\s"',;&]+)`),
	regexp.MustCompile(`(?is)((?:` + naming + `|\bauth)(?:\\*["']\s*:\s*|:))(?:` + quoted + `)`), // JSON, and text of protocol buffers
	regexp.MustCompile(`(?i)(\\*["'](?:` + naming + `)\\*["']\s*:\s*)[^\s"',;&{}\\]+`),           // JSON, of what is no string
	// A struct as Go prints it: its names have capitals, which that of an image has not.
	regexp.MustCompile(`(\b[A-Za-z0-9]*(?:Passw(?:or)?d|Secret|Token|Credential|Auth):)\\*[^\s"',;&{}\\][^\s"',;&]*`),
}

const (
	naming = `[a-z0-9_.-]*(?:passw(?:or)?d|secret|token|signature|credential|api_?-?key|access_?-?key)[a-z0-9_.-]*`
	quoted = `(\\+")(?:[^"\\]|\\+[^"\\]|\\\\+")+|(")(?:[^"\\]|\\.)+|(\\*')[^']+` // in quotation marks that are escaped, or not
)

// What only looks like a secret: a word behind the name of a scheme, as in "Basic authentication is not supported", and the name of a pull secret
// in a field of Kubernetes. Behind other names, as in --pull-secret=, stands the secret as well.
var (
	words  = regexp.MustCompile(`(?i) (?:authenti|authori|credential|challenge)[a-z]*\.?$`)
	called = regexp.MustCompile(`^[\\"']*(?:imagePullSecrets?|secret(?:Name|Namespace|Ref))[^A-Za-z0-9]+[a-z0-9./-]+$`)
)

// Discreet is a text of a runtime, a registry or a plugin as it may be told: to everybody who reads a NodeImage, events or a log. The credentials
// that were used are taken out of it, in the forms that written knows, and what looks like others. A secret that is shorter than shortestSecret
// stays, unless it is where secrets stand: behind password=, for example. Of a text that is longer than longestText the rest is not told.
func Discreet(text string, used ...Credential) string {
	secrets := []string{}
	for _, c := range used {
		secrets = append(secrets, c.Password, c.IdentityToken, c.RegistryToken)
		if c.Password != "" {
			secrets = append(secrets, encoded(c.Username+":"+c.Password)...)
		}
	}
	return discreet(text, secrets)
}

func discreet(text string, secrets []string) string {
	if len(text) > longestText { // it ends with a whole word: half an address does not look like one
		text = text[:strings.LastIndexAny(text[:longestText], " \t\r\n")+1] + hidden
	}
	text = without(text, secrets)
	text = users.ReplaceAllString(text, "${1}"+hidden+"@")
	text = queries.ReplaceAllString(text, "${1}"+hidden)
	text = unless(words, headers, text, "${1} "+hidden)
	text = tokens.ReplaceAllLiteralString(text, hidden)
	for _, a := range assignments {
		text = unless(called, a, text, "${1}${2}${3}${4}"+hidden)
	}
	return text
}

// unless replaces what matches one expression and not the other.
func unless(not, matches *regexp.Regexp, text, by string) string {
	return matches.ReplaceAllStringFunc(text, func(found string) string {
		if not.MatchString(found) {
			return found
		}
		return matches.ReplaceAllString(found, by)
	})
}

// without takes secrets out of a text, however they are written there. Of two of which one is a part of the other the longer one goes first. A secret
// that is a word of the language, or docker, takes that word out of all names too: better too little is told than too much.
func without(text string, secrets []string) string {
	secrets = slices.DeleteFunc(secrets, func(s string) bool { return len(s) < shortestSecret })
	if len(secrets) == 0 {
		return text
	}
	var forms []string
	for _, s := range secrets {
		forms = append(forms, written(s, len(text))...)
	}
	slices.SortFunc(forms, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b)) })
	for _, f := range slices.Compact(forms) {
		text = strings.ReplaceAll(text, f, hidden)
	}
	return withoutParts(text, secrets)
}

// runs is what a part of a secret may stand in: characters of tokens, of base64, and of that in an address, also on several lines. A dot is none of
// them, or names of servers would go that are in a key.
var runs = regexp.MustCompile(`[A-Za-z0-9+/_%-]+(?:(?:` + breaks.String() + `)+[A-Za-z0-9+/_%-]+)*`)

// withoutParts takes out of a text what has a long part of a secret in it: the text was cut, or base64 is broken into lines.
func withoutParts(text string, secrets []string) string {
	known := map[string]bool{} // the parts of the text, and whether they are of a secret
	for _, run := range runs.FindAllString(text, -1) {
		for part := range parts(run) {
			known[part] = false
		}
	}
	if len(known) == 0 {
		return text
	}
	for _, s := range secrets {
		for _, source := range sources(s) {
			for part := range parts(source) {
				if _, told := known[part]; told {
					known[part] = true
				}
			}
		}
	}
	return runs.ReplaceAllStringFunc(text, func(run string) string {
		for part := range parts(run) {
			if known[part] {
				return hidden
			}
		}
		return run
	})
}

// parts are all parts of a text that are as long as the shortest that is looked for, as if it were one line.
func parts(text string) iter.Seq[string] {
	text = breaks.ReplaceAllLiteralString(text, "")
	return func(yield func(string) bool) {
		for end := shortestPart; end <= len(text); end++ {
			if !yield(text[end-shortestPart : end]) {
				return
			}
		}
	}
}

// breaks is where a line ends, also in a secret that is a JSON document and holds a key of several lines.
var breaks = regexp.MustCompile(`[\r\n]|\\+[rn]`)

// sources are what parts of a secret may come from: itself, and its base64.
func sources(secret string) []string {
	all := []string{secret[:min(len(secret), longestText)]}
	for _, s := range escaped(all, longestText) {
		all = append(all, encoded(s)...)
	}
	return all
}

// written are the forms in which a secret may be told in a text of so much room: the whole and each long line of it, as they are and escaped, also
// twice, as in an answer in JSON that is quoted; and the whole in base64. Each is at least as long as the shortest secret.
func written(secret string, room int) []string {
	plain, inBase64 := []string{secret}, []string{}
	if s := strings.TrimSpace(secret); len(s) >= shortestSecret {
		plain = append(plain, s)
	}
	for _, s := range escaped(plain, room) {
		inBase64 = append(inBase64, encoded(s)...)
	}
	for _, line := range breaks.Split(secret, -1) {
		if line = strings.TrimSpace(line); len(line) >= shortestLine {
			plain = append(plain, line)
		}
	}
	return append(escaped(abroad(plain, room), room), abroad(inBase64, room)...)
}

// escaped are texts as they are, and as Go writes them into others: in quotation marks, in JSON, in HTML and in an address. Each is there once, and
// none that there is no room for: it would only grow further.
func escaped(texts []string, room int) []string {
	return each(texts, room, func(s string) []string {
		return []string{
			s, inside(strconv.Quote(s)), inside(strconv.QuoteToASCII(s)), inJSON(s, true), inJSON(s, false), html.EscapeString(s),
			url.QueryEscape(s), url.PathEscape(s), url.User(s).String(),
		}
	})
}

// abroad are texts as escaped has them, and as others write them: with the digits of escapes in the other case, and in the JSON of PHP, .NET and
// Gson.
func abroad(texts []string, room int) []string {
	return each(texts, room, func(s string) []string {
		ascii := inside(strconv.QuoteToASCII(s))
		all := append(escaped([]string{s}, room), strings.ReplaceAll(ascii, "/", `\/`), dotNet.Replace(ascii), gson.Replace(inJSON(s, true)))
		for _, form := range all {
			all = append(all, digits.ReplaceAllStringFunc(form, otherCase))
		}
		return all
	})
}

func each(texts []string, room int, forms func(string) []string) []string {
	var all []string
	for _, s := range texts {
		if len(s) <= room {
			all = append(all, forms(s)...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

var (
	dotNet = strings.NewReplacer(`\\`, `\\`, `\"`, `\u0022`, "&", `\u0026`, "'", `\u0027`, "+", `\u002B`, "<", `\u003C`, ">", `\u003E`, "`", `\u0060`)
	gson   = strings.NewReplacer("=", `\u003d`, "'", `\u0027`)
	digits = regexp.MustCompile(`%[0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}`)
)

// otherCase writes the digits of an escape as Go does not: small in an address, and as capitals elsewhere.
func otherCase(escape string) string {
	if escape[0] == '%' {
		return strings.ToLower(escape)
	}
	return `\u` + strings.ToUpper(escape[2:])
}

func inside(quoted string) string { return quoted[1 : len(quoted)-1] }

func inJSON(s string, forHTML bool) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(forHTML)
	_ = e.Encode(s) // a string can always be written
	return inside(strings.TrimSuffix(b.String(), "\n"))
}

// encoded is a text in base64, in both alphabets, with and without padding; and that part of it which is the same behind whatever else it is encoded,
// for each of the three places that it can have there. Behind the 13 bytes of {"password":" the text pa55 always shows as BhNT, for example.
func encoded(s string) []string {
	var all []string
	for _, e := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		raw := e.WithPadding(base64.NoPadding)
		all = append(all, e.EncodeToString([]byte(s)), raw.EncodeToString([]byte(s)))
		for before := range 3 {
			text := raw.EncodeToString(append(make([]byte, before), s...))
			first, end := (before*8+5)/6, (before+len(s))*8/6 // the characters that are made of s alone
			all = append(all, text[first:end])
		}
	}
	return all
}
