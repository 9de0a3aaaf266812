// A provider of OpenID Connect on a loopback port, with the pages of oidc-provider for tests: any user, any password.
// Usage: node provider.mjs FOLDER_OF_NODE_MODULES PORT. POST /rotate makes a new key, with which it signs from then on.
import { createRequire } from 'node:module';
import { generateKeyPair, randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';

const [folder, port] = process.argv.slice(2);
const require = createRequire(`${folder}/`);
const { Provider } = await import(pathToFileURL(require.resolve('oidc-provider')));
const issuer = `http://127.0.0.1:${port}`;
const keys = [];

const stored = new Map();

// What the provider keeps, through a change of its keys.
class Adapter {
  constructor(model) {
    this.model = model;
  }

  async upsert(id, payload) {
    stored.set(`${this.model}:${id}`, payload);
  }

  async find(id) {
    return stored.get(`${this.model}:${id}`);
  }

  async findBy(name, value) {
    return [...stored].find(([key, payload]) => key.startsWith(`${this.model}:`) && payload[name] === value)?.[1];
  }

  async findByUserCode(userCode) {
    return this.findBy('userCode', userCode);
  }

  async findByUid(uid) {
    return this.findBy('uid', uid);
  }

  async consume(id) {
    stored.get(`${this.model}:${id}`).consumed = Math.floor(Date.now() / 1000);
  }

  async destroy(id) {
    stored.delete(`${this.model}:${id}`);
  }

  async revokeByGrantId(grantId) {
    for (const [key, payload] of stored) if (payload.grantId === grantId) stored.delete(key);
  }
}

async function started() {
  const { privateKey } = await promisify(generateKeyPair)('rsa', { modulusLength: 2048 });
  keys.unshift({ ...privateKey.export({ format: 'jwk' }), kid: randomUUID(), use: 'sig', alg: 'RS256' });
  const provider = new Provider(issuer, {
    adapter: Adapter,
    jwks: { keys },
    cookies: { keys: ['a key for tests alone'] },
    clients: [
      {
        client_id: 'towpath',
        token_endpoint_auth_method: 'none',
        // The port of a loopback address does not count for a native client (RFC 8252).
        application_type: 'native',
        grant_types: ['urn:ietf:params:oauth:grant-type:device_code', 'authorization_code', 'refresh_token'],
        redirect_uris: ['http://127.0.0.1/-/sign-in/callback'],
        response_types: ['code'],
      },
    ],
    claims: { openid: ['sub'], profile: ['preferred_username'], groups: ['groups'] },
    scopes: ['openid', 'profile', 'groups', 'offline_access'],
    conformIdTokenClaims: false,
    features: { deviceFlow: { enabled: true }, devInteractions: { enabled: true }, revocation: { enabled: true } },
    ttl: { IdToken: 60, AccessToken: 60, DeviceCode: 600, Grant: 3600, Session: 3600, Interaction: 600 },
    findAccount: (context, id) => ({
      accountId: id,
      claims: () => ({ sub: `account-${id}`, preferred_username: id, groups: id === 'alice' ? ['/film/artists'] : [] }),
    }),
  });
  return provider.callback();
}

let serve = await started();
createServer(async (request, response) => {
  if (request.method === 'POST' && request.url === '/rotate') {
    serve = await started();
    response.end();
  } else {
    serve(request, response);
  }
}).listen(Number(port), '127.0.0.1', () => console.log('ready'));
