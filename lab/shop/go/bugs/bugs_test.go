package bugs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"shop.example/bugs"
)

func TestParse(t *testing.T) {
	for value, want := range map[string]string{
		"":      "home.convert, home.defaultad",
		"paper": "home.convert, home.defaultad",
		"0":     "none",
		// The set of a seed must not change, since reports name seeds.
		"random:1": "home.cart, product.cart",
		"random:2": "home.currencies, checkout.email",
		"random:3": "product.currencies, cart.currencies",
	} {
		set, err := bugs.Parse(value)
		if err != nil || set.String() != want {
			t.Errorf("%q: %v, %v, want %s", value, set, err, want)
		}
	}
	for _, value := range []string{"1", "none", "random", "random:", "random:-1", "random:x", "Paper", "random:1 "} {
		if set, err := bugs.Parse(value); err == nil {
			t.Errorf("%q accepted as %v", value, set)
		}
	}
}

func TestSeedsSelectAllSitesExceptThePapers(t *testing.T) {
	planted := map[bugs.Site]bool{}
	for seed := range 200 {
		set, err := bugs.Parse(fmt.Sprintf("random:%d", seed))
		if err != nil {
			t.Fatal(err)
		}
		count := 0
		for _, d := range bugs.Sites {
			if set.Missing(d.Site) {
				planted[d.Site] = true
				count++
			}
		}
		if count != 1 && count != 2 {
			t.Errorf("seed %d plants %v", seed, set)
		}
	}
	for _, d := range bugs.Sites {
		if planted[d.Site] == (d.Paper != "") {
			t.Errorf("%s planted: %v", d.Site, planted[d.Site])
		}
	}
}

// Every site is used by exactly one call, in the service of the table.
func TestEachSiteIsUsedByItsService(t *testing.T) {
	source, err := os.ReadFile("bugs.go")
	if err != nil {
		t.Fatal(err)
	}
	constants := regexp.MustCompile(`(?m)^\t(\w+) +Site = "(.*)"$`).FindAllStringSubmatch(string(source), -1)
	if len(constants) != len(bugs.Sites) {
		t.Errorf("%d constants, %d sites", len(constants), len(bugs.Sites))
	}
	for _, match := range constants {
		i := slices.IndexFunc(bugs.Sites, func(d bugs.Description) bool { return string(d.Site) == match[2] })
		if i < 0 {
			t.Errorf("%s is not in the table", match[2])
			continue
		}
		service := bugs.Sites[i].Service
		uses := 0
		for _, file := range sources(t, filepath.Join("..", service)) {
			uses += strings.Count(file, "bugs."+match[1]+",") + strings.Count(file, "bugs."+match[1]+")")
		}
		if uses != 1 {
			t.Errorf("%s is used %d times by %s", match[2], uses, service)
		}
	}
}

func sources(t *testing.T, folder string) []string {
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, name := range names {
		if !strings.HasSuffix(name, "_test.go") {
			file, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, string(file))
		}
	}
	return files
}

func TestListNamesEverySite(t *testing.T) {
	list := bugs.List()
	for _, d := range bugs.Sites {
		if !strings.Contains(list, string(d.Site)+" ") || !strings.Contains(list, d.Call) {
			t.Errorf("%s is missing in\n%s", d.Site, list)
		}
	}
}

func TestReadmeHasTheSameTable(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range bugs.Sites {
		row := fmt.Sprintf("| `%s` | %s | %s | %s | %s |\n", d.Site, d.Service, d.Call, d.Repair, d.Paper)
		if !strings.Contains(string(readme), row) {
			t.Errorf("no row %s", row)
		}
	}
}
