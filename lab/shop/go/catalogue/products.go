package catalogue

import "shop.example/gen"

// products returns all products. An id is the name of the product's picture and
// a number. Texts are one or two short sentences.
func products() []*gen.Product {
	product := func(id, picture, name, text string, hundredths int64) *gen.Product {
		return &gen.Product{Id: id, Picture: picture, Name: name, Text: text,
			Price: &gen.Money{Currency: "USD", Hundredths: hundredths}}
	}
	return []*gen.Product{
		product("mug-01", "mug", "Harbour mug",
			"Thick stoneware that keeps tea warm through one long chapter.", 1450),
		product("lamp-02", "lamp", "Reading lamp",
			"A brass arm and a linen shade. Lights the page, not the room.", 6900),
		product("chair-03", "chair", "Kitchen chair",
			"Bent beech with a woven seat, made to be repaired.", 12900),
		product("book-04", "book", "Field notebook",
			"Ninety-six dotted pages that lie flat and do not mind rain.", 990),
		product("plant-05", "plant", "Window fern",
			"Asks for little light and a glass of water on Sundays.", 2275),
		product("clock-06", "clock", "Wall clock",
			"Two hands, twelve strokes and no tick at night.", 4820),
		product("bag-07", "bag", "Market bag",
			"Waxed canvas, carries eight loaves or one small dog.", 3650),
		product("pan-08", "pan", "Iron pan",
			"Cast in one piece. Gets better every year it is used.", 5500),
		product("kite-09", "kite", "Beach kite",
			"Flies in a breeze that barely moves the grass.", 2799),
		product("bell-10", "bell", "Bicycle bell",
			"A clear double note, audible around two corners.", 1125),
	}
}
