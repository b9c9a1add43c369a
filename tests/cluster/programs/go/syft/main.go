// Prints the bill of materials of a directory as CycloneDX JSON: its Debian packages, Python packages and Java archives.
// syft's own main package imports a database, a registry client and a terminal interface, which take a third of the time
// of the build of all programs.
//
// Usage: syft DIRECTORY NAME
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/anchore/syft/syft"
	"github.com/anchore/syft/syft/cataloging"
	"github.com/anchore/syft/syft/format/cyclonedxjson"
	"github.com/anchore/syft/syft/source"
	"github.com/anchore/syft/syft/source/directorysource"
)

var catalogers = []string{"dpkg-db-cataloger", "python-installed-package-cataloger", "java-archive-cataloger"}

func main() {
	if len(os.Args) != 3 {
		fail(fmt.Errorf("usage: syft DIRECTORY NAME"))
	}
	if err := printBill(os.Args[1], os.Args[2]); err != nil {
		fail(err)
	}
}

func printBill(directory, name string) error {
	root, err := directorysource.New(directorysource.Config{
		Path:  directory,
		Base:  directory, // absolute links in the image do not lead out of it
		Alias: source.Alias{Name: name},
	})
	if err != nil {
		return err
	}
	selection := cataloging.NewSelectionRequest().WithDefaults(catalogers...)
	config := syft.DefaultCreateSBOMConfig().WithCatalogerSelection(selection).WithoutFiles()
	bill, err := syft.CreateSBOM(context.Background(), root, config)
	if err != nil {
		return err
	}
	encoder, err := cyclonedxjson.NewFormatEncoderWithConfig(cyclonedxjson.DefaultEncoderConfig())
	if err != nil {
		return err
	}
	return encoder.Encode(os.Stdout, *bill)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
