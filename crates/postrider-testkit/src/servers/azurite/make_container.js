// Makes a container. Arguments: port, account, key, name.
const { createHmac } = require("node:crypto");
const { request } = require("node:http");

const [port, account, key, name] = process.argv.slice(2);
const date = new Date().toUTCString();
const version = "2021-12-02";
const signed = [
  "PUT", "", "", "", "", "", "", "", "", "", "", "",
  `x-ms-date:${date}`,
  `x-ms-version:${version}`,
  `/${account}/${account}/${name}`,
  "restype:container",
].join("\n");
const signature = createHmac("sha256", Buffer.from(key, "base64")).update(signed, "utf8").digest("base64");
const asked = request({
  host: "127.0.0.1",
  port,
  method: "PUT",
  path: `/${account}/${name}?restype=container`,
  headers: {
    "content-length": 0,
    "x-ms-date": date,
    "x-ms-version": version,
    authorization: `SharedKey ${account}:${signature}`,
  },
});
asked.on("response", (answer) => {
  if (answer.statusCode !== 201) {
    throw new Error(`the answer is ${answer.statusCode} ${answer.headers["x-ms-error-code"]}`);
  }
});
asked.end();
