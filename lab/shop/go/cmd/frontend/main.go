// Command frontend serves the shop's web pages. CURRENCY_ADDR, CATALOGUE_ADDR,
// CART_ADDR, ADS_ADDR, RECOMMENDATION_ADDR, SHIPPING_ADDR, PAYMENT_ADDR and
// CHECKOUT_ADDR are the addresses of the services that it calls. See package
// bugs for SHOP_BUGS; -list-bugs prints its sites.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"

	"shop.example/bugs"
	"shop.example/frontend"
	"shop.example/service"
)

func main() {
	list := flag.Bool("list-bugs", false, "print the sites where a check can be left out, and stop")
	flag.Parse()
	if *list {
		fmt.Print(bugs.List())
		return
	}
	service.Main("frontend", func(ctx context.Context) error {
		missing, err := bugs.Parse(os.Getenv("SHOP_BUGS"))
		if err != nil {
			return err
		}
		clients, err := frontend.Connect(service.Dial)
		if err != nil {
			return err
		}
		log.Printf("planted bugs: %s", missing)
		return service.ServeHTTP(ctx, frontend.New(clients, missing).Handler())
	})
}
