-- Gives HTTP/JSON callers the status and the error body of the contract. First of the HTTP filters, so that on the way
-- back it runs after the transcoder.
--
-- A service puts a status other than 200 at the end of its HttpBody's content type ("application/json; status=202"), for
-- errors too, and there also the headers of a page. What comes with a gRPC status other than OK was not made by a service's interceptor: grpc itself refused
-- the call, as when the service is going down. Native gRPC calls pass untouched.

local UNAVAILABLE, DEADLINE_EXCEEDED, UNIMPLEMENTED, RESOURCE_EXHAUSTED = "14", "4", "12", "8"
local FAILURES = {
  [UNAVAILABLE] = {503, "API_RESTARTING", "true", "The API is restarting; try again in a moment."},
  [DEADLINE_EXCEEDED] = {504, "DEADLINE_EXCEEDED", "false", "The API did not answer in time."},
  [UNIMPLEMENTED] = {501, "UNIMPLEMENTED", "false", "This API does not offer the operation."},
  [RESOURCE_EXHAUSTED] = {500, "TOO_LARGE", "false", "The request or its answer is larger than the API can carry."},
}
local OTHER = {500, "INTERNAL", "false", "internal error"}
local GRPC_HEADERS = {"grpc-status", "grpc-message", "grpc-status-details-bin", "grpc-accept-encoding", "grpc-encoding"}

-- Not gRPC-Web, whose content types begin alike.
local function is_native(content_type)
  return content_type ~= nil and content_type:find("^application/grpc%f[+;%z]") ~= nil
end

-- The body takes its form, and for some statuses its text, from the gateway's local replies.
local function refuse(handle, status, text)
  handle:respond({[":status"] = status}, text)
end

local function remove_grpc_headers(headers)
  for _, name in ipairs(GRPC_HEADERS) do
    headers:remove(name)
  end
end

local function replace_body(handle, text)
  handle:body(true):setBytes(text) -- yields: the header object of before is dead after it
end

local function fail(handle, headers, grpc_status)
  local status, code, defined, message = unpack(FAILURES[grpc_status] or OTHER)
  headers:replace(":status", tostring(status))
  headers:replace("content-type", "application/json")
  replace_body(handle, string.format(
    '{"code":"%s","defined":%s,"message":"%s","status":%d}', code, defined, message, status))
end

-- Of a page of a list: "application/json; anycloud-total-count=7; link=<...>; rel="next"".
local function set_page(headers, content_type)
  local kind, total, rest = content_type:match("^([^;]*); anycloud%-total%-count=(%d+)(.*)$")
  if kind then
    headers:replace("content-type", kind)
    headers:replace("anycloud-total-count", total)
    local link = rest:match("^; link=(.+)$")
    if link then
      headers:replace("link", link)
    end
  end
end

local function set_status(handle, headers)
  local told = headers:get("content-type") or ""
  local content_type, status = told:match("^(.*); status=(%d%d%d)$")
  if not status then
    set_page(headers, told)
    return
  end
  headers:replace(":status", status)
  if status == "204" then
    headers:remove("content-type")
    replace_body(handle, "")
    handle:headers():remove("content-length")
  else
    headers:replace("content-type", content_type)
  end
end

-- The transcoder's text names a message type that exists in the gateway alone.
local function tidy(handle)
  local text = handle:body(true)
  local told = text:getBytes(0, text:length())
  text:setBytes((told:gsub('Could not find field (\\".-\\") in the type \\"[%w%.]+\\"', "unknown query parameter %1")))
end

function envoy_on_request(handle)
  local headers = handle:headers()
  local path = headers:get(":path")
  if is_native(headers:get("content-type")) then
    if not path:find("^/v1/") then
      handle:streamInfo():dynamicMetadata():set("envoy.filters.http.lua", "native", true)
      return
    end
    -- No gRPC method is there. The transcoder would leave the call alone, and its answer would be an empty 200.
    headers:replace("content-type", "application/octet-stream")
  end
  headers:remove("grpc-timeout") -- gRPC clients alone say these
  headers:remove("grpc-encoding")
  if path:find("^[^?]*/%f[?%z]") then -- the transcoder would pass over the slash
    refuse(handle, "404", "")
  elseif path:find("&=", 1, true) or path:find("^[^?]*%?=") then -- nor would it see these
    refuse(handle, "400", "url: a query parameter has no name")
  elseif headers:get("content-encoding") then
    refuse(handle, "415", "content-encoding: bodies are taken as they are, not compressed")
  elseif headers:get("upgrade") then
    refuse(handle, "400", "upgrade: this API speaks no other protocol")
  end
end

function envoy_on_response(handle)
  local seen = handle:streamInfo():dynamicMetadata():get("envoy.filters.http.lua")
  local headers = handle:headers()
  if seen and seen["native"] then
    if headers:get("grpc-message") == "request too long" then -- the gateway's word, of which it makes UNKNOWN
      headers:replace("grpc-status", RESOURCE_EXHAUSTED)
    end
    return
  end
  local grpc_status = headers:get("grpc-status")
  remove_grpc_headers(headers)
  if grpc_status and grpc_status ~= "0" then
    fail(handle, headers, grpc_status)
  elseif headers:get(":status") == "400" then
    tidy(handle)
  else
    set_status(handle, headers)
  end
end
