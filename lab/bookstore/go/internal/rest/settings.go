package rest

import (
	"log"
	"net"
	"os"
)

// Required returns the value of an environment variable. Without one, the program ends.
func Required(name string) string {
	value := os.Getenv(name)
	if value == "" {
		log.Fatalf("%s is not set", name)
	}
	return value
}

// Address returns where the service listens: BIND (default: 127.0.0.1) and PORT.
func Address() string {
	bind := os.Getenv("BIND")
	if bind == "" {
		bind = "127.0.0.1"
	}
	return net.JoinHostPort(bind, Required("PORT"))
}
