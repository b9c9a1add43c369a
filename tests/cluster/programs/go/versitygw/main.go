// An S3 server whose objects are files. versitygw's own main package imports its integration tests and the clients of
// other clouds. The environment variables ROOT_ACCESS_KEY and ROOT_SECRET_KEY have the only account.
//
// Usage: versitygw --address=HOST:PORT --attributes=DIRECTORY [--region=REGION] [--readonly] DIRECTORY
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"
)

const (
	mostConnections = 100_000
	mostActions     = 5_000
	mostParts       = 10_000
	mostBytesOfCopy = 5 << 30
)

func main() {
	address := flag.String("address", "", "the address of the server")
	attributes := flag.String("attributes", "", "the directory of the attributes of objects")
	region := flag.String("region", "", "the name of the region")
	readonly := flag.Bool("readonly", false, "refuse changes")
	flag.Parse()
	if flag.NArg() != 1 {
		log.Fatal("one directory for the objects is needed")
	}
	store, err := meta.NewSideCar(*attributes)
	if err != nil {
		log.Fatal(err)
	}
	objects, err := posix.New(flag.Arg(0), store, posix.PosixOpts{
		SideCarDir:          *attributes,
		Concurrency:         mostActions,
		CopyObjectThreshold: mostBytesOfCopy,
	})
	if err != nil {
		log.Fatal(err)
	}
	ends, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	err = embedgw.RunVersityGW(ends, objects, &embedgw.Config{
		RootUserAccess:    os.Getenv("ROOT_ACCESS_KEY"),
		RootUserSecret:    os.Getenv("ROOT_SECRET_KEY"),
		Region:            *region,
		Ports:             []string{*address},
		MaxConnections:    mostConnections,
		MaxRequests:       mostConnections,
		MultipartMaxParts: mostParts,
		HealthPath:        "/health",
		Quiet:             true,
		Readonly:          *readonly,
	})
	if err != nil && ends.Err() == nil {
		log.Fatal(err)
	}
}
