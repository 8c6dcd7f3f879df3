package cart

import (
	"errors"
	"net"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
	"google.golang.org/protobuf/proto"

	"shop.example/gen"
)

const (
	// expiry is how long a cart is kept after its last change.
	expiry = 48 * time.Hour
	// idleConnections is how many connections to memcached stay open between
	// requests.
	idleConnections = 64
	// cacheTimeout bounds one exchange with memcached.
	cacheTimeout = 500 * time.Millisecond
	// attempts bounds the retries of a change that conflicts with others.
	attempts = 16
)

var errBusy = errors.New("cart is being changed by others")

// store has one item per user in memcached: the key is "cart:" and the user,
// the value is a CartContents message. This process caches nothing.
type store struct {
	cache *memcache.Client
}

func newStore(address string) *store {
	cache := memcache.New(address)
	cache.MaxIdleConns = idleConnections
	cache.Timeout = cacheTimeout
	return &store{cache: cache}
}

func key(user string) string { return "cart:" + user }

// get returns the cart of user, empty if there is none.
func (s *store) get(user string) (*gen.CartContents, error) {
	contents, _, err := s.read(user)
	return contents, err
}

// change applies edit to the cart of user. Concurrent changes are all kept: on
// a conflict, edit is applied again to the newer cart.
func (s *store) change(user string, edit func(*gen.CartContents) error) (*gen.CartContents, error) {
	for range attempts {
		contents, item, err := s.read(user)
		if err != nil {
			return nil, err
		}
		if err := edit(contents); err != nil {
			return nil, err
		}
		value, err := proto.Marshal(contents)
		if err != nil {
			return nil, err
		}
		if item == nil {
			err = s.cache.Add(&memcache.Item{Key: key(user), Value: value, Expiration: int32(expiry.Seconds())})
		} else {
			item.Value, item.Expiration = value, int32(expiry.Seconds())
			err = s.cache.CompareAndSwap(item)
		}
		if err == nil {
			return contents, nil
		}
		if !errors.Is(err, memcache.ErrNotStored) && !errors.Is(err, memcache.ErrCASConflict) {
			return nil, err
		}
	}
	return nil, errBusy
}

// empty deletes the cart of user.
func (s *store) empty(user string) error {
	err := s.retryOnce(func() error { return s.cache.Delete(key(user)) })
	if errors.Is(err, memcache.ErrCacheMiss) {
		return nil
	}
	return err
}

// read also returns the cache item for CompareAndSwap, or nil if there is none.
// A value that is not a cart counts as an empty cart.
func (s *store) read(user string) (*gen.CartContents, *memcache.Item, error) {
	var item *memcache.Item
	err := s.retryOnce(func() (err error) {
		item, err = s.cache.Get(key(user))
		return err
	})
	contents := &gen.CartContents{}
	if errors.Is(err, memcache.ErrCacheMiss) {
		return contents, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	if proto.Unmarshal(item.Value, contents) != nil {
		contents.Reset()
	}
	return contents, item, nil
}

// retryOnce runs an idempotent exchange, and runs it again if the connection
// was broken. It closes all idle connections before, since a restart of
// memcached breaks all of them.
func (s *store) retryOnce(exchange func() error) error {
	err := exchange()
	if !isBroken(err) {
		return err
	}
	s.cache.Close()
	return exchange()
}

func isBroken(err error) bool {
	switch {
	case err == nil,
		errors.Is(err, memcache.ErrCacheMiss),
		errors.Is(err, memcache.ErrMalformedKey):
		return false
	}
	var timeout net.Error
	var connect *memcache.ConnectTimeoutError
	return !errors.As(err, &connect) && !(errors.As(err, &timeout) && timeout.Timeout())
}
