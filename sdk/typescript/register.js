// node --require …/register.js app.js
'use strict';
require('./dist/register.js');
