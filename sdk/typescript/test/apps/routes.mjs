// The same routes in each framework. FRAMEWORK=express|express4|fastify|fastify4|koa|koa2|nest-express|nest-fastify.
// Every route replies with its parameters; /fail fails.
import http from 'node:http';
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);
const { FRAMEWORK } = process.env;

function expressApp() {
  const isOld = FRAMEWORK === 'express4';
  const express = require(FRAMEWORK);
  const reply = (request, response) => response.json(request.params);
  const app = express();
  app.all(isOld ? '*' : '/*all', (_request, _response, next) => next());
  app.get('/', reply);
  app.get('/product/special', reply);
  app.get('/product/:id', reply);
  app.get(isOld ? '/order/:id(\\d+)' : '/order/:id', reply);
  app.get(isOld ? '/files/*' : '/files/*path', reply);
  app.get(/^\/pattern\/(\d+)$/, reply);
  const cart = express.Router({ mergeParams: true });
  cart.get('/', reply);
  cart.get('/:user', reply);
  cart.get('/:user/fail', async () => {
    throw new Error('requested');
  });
  if (isOld) {
    cart.get('/:user/next', (_request, _response, next) => next(new Error('requested')));
  }
  const shop = express.Router({ mergeParams: true });
  shop.use((_request, _response, next) => next());
  shop.use('/cart', cart);
  app.use('/shop/:region', (_request, _response, next) => next());
  app.use('/shop/:tenant', shop);
  const admin = express();
  admin.get('/:page', reply);
  app.use('/admin/2024', admin);
  app.get(isOld ? '/spa/*' : '/spa/*page', (_request, _response, next) => next());
  app.get(isOld ? '*' : '/*rest', (request, response, next) =>
    request.path.startsWith('/page') ? reply(request, response) : next(),
  );
  // replies to errors outside of the router in which they occurred
  app.use((error, _request, response, _next) => response.status(500).json(error.message));
  return http.createServer(app);
}

async function fastifyApp() {
  const app = require(FRAMEWORK)();
  const reply = async (request) => request.params;
  app.get('/', reply);
  app.get('/product/special', reply);
  app.get('/product/:id', reply);
  app.get('/order/:id(^\\d+$)', reply);
  app.get('/files/*', reply);
  await app.register(
    async (shop) => {
      await shop.register(
        async (cart) => {
          cart.get('/', reply);
          cart.get('/:user', reply);
          cart.get('/:user/fail', async () => {
            throw new Error('requested');
          });
        },
        { prefix: '/cart' },
      );
    },
    { prefix: '/shop/:tenant' },
  );
  await app.ready();
  return app;
}

function koaApp() {
  const Koa = require(FRAMEWORK);
  const Router = require('@koa/router');
  const reply = (context) => (context.body = context.params);
  const app = new Koa();
  app.silent = true;
  const router = new Router();
  router.use((_context, next) => next());
  router.get('/', reply);
  router.get('/product/special', reply);
  router.get('/product/:id', reply);
  router.get('/order/:id', reply);
  router.get('/files/{*path}', reply);
  router.get(/^\/pattern\/(\d+)$/, reply);
  const cart = new Router();
  cart.get('/', reply);
  cart.get('/:user', reply);
  cart.get('/:user/fail', () => {
    throw new Error('requested');
  });
  router.use('/shop/:tenant/cart', cart.routes(), cart.allowedMethods());
  const admin = new Router({ prefix: '/pages' });
  admin.get('/:page', reply);
  const mounted = new Koa();
  mounted.use(admin.routes());
  app.use(require('koa-mount')('/admin/2024', mounted));
  app.use(router.routes());
  app.use(router.allowedMethods());
  return http.createServer(app.callback());
}

async function nestApp() {
  await import('reflect-metadata');
  const { Controller, Get, Module, Param, RequestMethod } = await import('@nestjs/common');
  const { NestFactory } = await import('@nestjs/core');
  // decorators as TypeScript compiles them
  const handler = (type, name, path) => {
    Param()(type.prototype, name, 0);
    Get(path)(type.prototype, name, Object.getOwnPropertyDescriptor(type.prototype, name));
  };
  class Products {
    special(params) {
      return params;
    }
    product(params) {
      return params;
    }
  }
  Controller('product')(Products);
  handler(Products, 'special', 'special');
  handler(Products, 'product', ':id');
  class Carts {
    all(params) {
      return params;
    }
    one(params) {
      return params;
    }
    fail() {
      throw new Error('requested');
    }
  }
  Controller('shop/:tenant/cart')(Carts);
  handler(Carts, 'all', '');
  handler(Carts, 'one', ':user');
  handler(Carts, 'fail', ':user/fail');
  class App {
    configure(consumer) {
      consumer.apply((_request, _response, next) => next()).forRoutes({ path: '*all', method: RequestMethod.ALL });
    }
  }
  Module({ controllers: [Products, Carts] })(App);
  let adapter;
  if (FRAMEWORK === 'nest-fastify') {
    const { FastifyAdapter } = await import('@nestjs/platform-fastify');
    adapter = new FastifyAdapter();
  } else {
    const { ExpressAdapter } = await import('@nestjs/platform-express');
    adapter = new ExpressAdapter();
  }
  const app = await NestFactory.create(App, adapter, { logger: false });
  app.setGlobalPrefix('api');
  await app.init();
  return app;
}

const family = FRAMEWORK.replace(/\d$|-.*$/, '');
const app = await { express: expressApp, fastify: fastifyApp, koa: koaApp, nest: nestApp }[family]();
if (app instanceof http.Server) {
  await new Promise((resolve) => app.listen(0, '127.0.0.1', resolve));
  console.log(JSON.stringify({ port: app.address().port }));
} else {
  await (family === 'nest' ? app.listen(0, '127.0.0.1') : app.listen({ port: 0, host: '127.0.0.1' }));
  const server = family === 'nest' ? app.getHttpServer() : app.server;
  console.log(JSON.stringify({ port: server.address().port }));
}
