//! Secrets as shells, programs, documents and logs wrap them: quoted twice, escaped, in calls, in columns, in base64.

use baton_core::redact::redact;

use crate::secrets::{ALNUM, BASE32, BASE64, Dice, HEX, LOWER, base64};
use crate::unchanged;

/// The text before the secret, the secret, and the text after it.
type Wrapped = (String, String, &'static str);

#[rustfmt::skip]
fn wrapped(d: &mut Dice) -> Vec<Wrapped> {
    let mut list: Vec<Wrapped> = Vec::new();
    // With a symbol and without one: what holds a symbol needs no digit, and what holds none is easily taken for a word.
    let pw = |d: &mut Dice| format!("{}!{}7", d.of(ALNUM, 6), d.of(ALNUM, 3));
    let word = |d: &mut Dice| format!("{}7{}", d.of(ALNUM, 6), d.of(ALNUM, 4));
    let token = |d: &mut Dice| format!("{}4{}", d.of(ALNUM, 20), d.of(ALNUM, 12));

    // Command lines.
    for (before, after) in [
        ("PGPASSWORD='", "' psql -h db"),
        ("PGPASSWORD=$'", "' psql -h db"),
        ("env DB_PASSWORD=", " ./run"),
        ("+ DB_PASSWORD=", "\n"),
        ("export DB_PASSWORD=\"", "\"; ./run"),
        ("docker run -e DB_PASSWORD=", " image"),
        ("docker run --env=POSTGRES_PASSWORD=", " postgres"),
        ("docker run -e 'DB_PASSWORD=", "' image"),
        ("kubectl create secret generic db --from-literal=password=", "\n"),
        ("kubectl create secret generic db --from-literal=password='", "'\n"),
        ("helm upgrade x chart --set db.password=", " --wait"),
        ("terraform apply -var 'db_password=", "'"),
        ("terraform apply -var=\"db_password=", "\""),
        ("psql \"host=db user=app password=", " dbname=x\""),
        ("psql \"dbname=x password='", "'\""),
        ("wget --user=bob --password=", " https://host"),
        ("wget --http-password='", "' https://host"),
        ("curl -d 'user=bob&password=", "&x=1' https://host"),
        ("curl -F password=", " https://host"),
        ("curl -d '{\"password\":\"", "\"}' https://host"),
        ("curl -d \"{\\\"password\\\":\\\"", "\\\"}\" https://host"),
        ("http POST host/login user=bob password=", "\n"),
        ("gpg --batch --passphrase ", " -c file"),
        ("gpg --batch --passphrase '", "' -c file"),
        ("ansible all -e ansible_become_pass=", " -m ping"),
        ("ansible all -e \"ansible_ssh_pass='", "'\" -m ping"),
        ("openssl pkcs12 -export -password pass:", " -in a"),
        ("echo \"DB_PASSWORD=", "\" >> .env"),
        ("printf 'DB_PASSWORD=%s\\n' '", "' >> .env"),
        ("$env:DB_PASSWORD = \"", "\""),
        ("Connect-Host -Password \"", "\" -User bob"),
        ("plink -ssh bob@host -pw ", " ls"),
        ("ssh-keygen -t rsa -N \"", "\" -f key"),
        ("ssh-keygen -p -P '", "' -f key"),
        ("htpasswd -b .htpasswd bob ", "\n"),
        ("htpasswd -nbB bob '", "'\n"),
        ("echo '", "' | docker login -u bob --password-stdin"),
        ("printf %s \"", "\" | helm registry login host -u bob --password-stdin"),
        ("echo ", " | sudo -S apt update"),
        ("sudo -S true <<< '", "'"),
        ("echo 'root:", "' | chpasswd"),
        ("chpasswd <<< \"bob:", "\""),
        ("echo \"", "\" | passwd --stdin bob"),
        ("xfreerdp /u:bob /p:", " /v:host"),
        ("redis-cli config set requirepass ", "\n"),
        ("set DB_PASSWORD=", "\r\n"),
    ] {
        list.push((before.into(), pw(d), after));
        if !before.contains("ssh-keygen -p") {
            list.push((before.into(), word(d), after));
        }
    }

    // Files that commands write.
    for (before, after) in [
        ("cat > .env <<EOF\nDB_PASSWORD=", "\nNEXT=1\nEOF"),
        ("cat > .env <<'EOF'\\nDB_PASSWORD=", "\\nNEXT=1\\nEOF"),
        ("{\\\"command\\\":\\\"cat > .env <<EOF\\\\nDB_PASSWORD=", "\\\\nEOF\\\"}"),
        ("cat <<-YAML\n\tdb:\n\t  password: ", "\n\tYAML"),
        ("tee app.yaml <<EOF\\n  password: '", "'\\nEOF"),
        ("Environment=\"DB_PASSWORD=", "\""),
        ("requirepass ", "\n"),
        ("masterauth ", "\n"),
        ("SetEnv DB_PASSWORD ", "\n"),
        ("fastcgi_param DB_PASSWORD \"", "\";"),
        ("storePassword \"", "\"\n"),
        ("keyPassword '", "'\n"),
    ] {
        list.push((before.into(), pw(d), after));
        list.push((before.into(), word(d), after));
    }

    // Escaped once, twice and three times, and in the escapes of other notations.
    for (before, after) in [
        ("{\"env\":\"{\\\"DB_PASSWORD\\\":\\\"", "\\\"}\"}"),
        ("\\\\\\\"password\\\\\\\":\\\\\\\"", "\\\\\\\"}"),
        ("\\\\\\\\\\\\\\\"password\\\\\\\\\\\\\\\":\\\\\\\\\\\\\\\"", "\\\\\\\\\\\\\\\"}"),
        ("{\\u0022password\\u0022:\\u0022", "\\u0022}"),
        ("{\\\\u0022password\\\\u0022:\\\\u0022", "\\\\u0022}"),
        ("{&quot;password&quot;:&quot;", "&quot;}"),
        ("{&#34;password&#34;: &#34;", "&#34;}"),
        ("data=%7B%22password%22%3A%22", "%22%7D"),
        ("body=user%3Dbob%26password%3D", "%26next"),
        ("?a\\u003db\\u0026password\\u003d", "\\u0026x"),
        ("password=&#39;", "&#39;"),
    ] {
        list.push((before.into(), word(d), after));
    }
    // A quote of its own inside.
    for (before, quote, after) in [
        ("{\"password\": \"", "\\\"", "\"}"),
        ("{\\\"password\\\": \\\"", "\\\\\\\"", "\\\"}"),
        ("password = '", "\\'", "'"),
        ("DB_PASSWORD=\"", "\\\"", "\"\n"),
        ("DB_PASSWORD='", "'\\''", "'\n"),
        ("ALTER USER app PASSWORD '", "''", "';"),
    ] {
        list.push((before.into(), format!("{}7{quote}{}!{}8", d.of(ALNUM, 3), d.of(ALNUM, 5), d.of(ALNUM, 2)), after));
    }

    // Programs.
    for (before, after) in [
        ("dict(password=\"", "\")"),
        ("password = \"\"\"", "\"\"\""),
        ("PASSWORD: Final[str] = \"", "\""),
        ("os.environ.setdefault(\"DB_PASSWORD\", \"", "\")"),
        ("os.Setenv(\"DB_PASSWORD\", \"", "\")"),
        ("config.setPassword(\"", "\");"),
        (".password(\"", "\").build()"),
        ("props.put(\"password\", \"", "\");"),
        (":password => '", "'"),
        ("{:user \"app\" :password \"", "\"}"),
        ("{user, \"app\"}, {password, \"", "\"}"),
        ("$db['default']['password'] = '", "';"),
        ("password <- \"", "\""),
        ("const char password[] = \"", "\";"),
        ("const char password[32] = \"", "\";"),
        ("Config { password: Some(\"", "\") }"),
        ("SET PASSWORD FOR 'app'@'%' = PASSWORD('", "');"),
        ("Dim password As String = \"", "\""),
        ("password := []byte(\"", "\")"),
        ("password: String::from(\"", "\"),"),
        ("let password = \"", "\".to_string();"),
    ] {
        list.push((before.into(), pw(d), after));
        list.push((before.into(), word(d), after));
    }

    // Documents and logs.
    for (before, after) in [
        ("<Password><![CDATA[", "]]></Password>"),
        ("<ns:password>", "</ns:password>"),
        ("<wsse:Password Type=\"http://docs#PasswordText\">", "</wsse:Password>"),
        ("<key>password</key>\n\t<string>", "</string>"),
        ("<string name=\"db_password\">", "</string>"),
        ("db = { user = \"app\", password = \"", "\" }"),
        ("{user: app, password: ", ", host: db}"),
        ("{User:app Password:", " Host:db}"),
        ("map[Password:[", "]]"),
        ("{\"password\": [\"", "\"]}"),
        ("Server=db;User Id=sa;Password=", ";Encrypt=true"),
        ("DRIVER={x};UID=sa;PWD=", ";DATABASE=x"),
        ("jdbc:postgresql://db/x?user=app&password=", "&ssl=true"),
        ("jdbc:sqlserver://db;user=sa;password=", ";"),
        ("Key         Value\n---         -----\npassword    ", "\nusername    app"),
        ("Password:\n", "\n"),
        ("| db | password | ", " |"),
        ("- password: `", "`"),
        ("userPassword: ", "\n"),
    ] {
        list.push((before.into(), pw(d), after));
    }
    list.push(("userPassword:: ".into(), base64(&pw(d)), "\n"));
    list.push(("otpauth://totp/App:bob?secret=".into(), d.of(BASE32, 32), "&issuer=App"));
    list.push(("Unseal Key 1: ".into(), d.of(ALNUM, 43) + "=", "\n"));
    for (before, after) in [
        ("curl -H \"PRIVATE-TOKEN: ", "\" https://host"),
        ("http host X-API-Key:", "\n"),
        ("proxy_set_header X-Api-Key \"", "\";"),
        ("map[Authorization:[Bearer ", "]]"),
        ("map[X-Api-Key:[", "] Accept:[*/*]]"),
        ("{\"X-Api-Key\": [\"", "\"]}"),
        ("\"X-Api-Key\":[\"", "\"]"),
        ("{\"name\":\"Cookie\",\"value\":\"session=", "\"}"),
        ("\"cookie\":[\"session=", "\"]"),
        ("rawHeaders: ['Accept', '*/*', 'X-Api-Key', '", "']"),
        ("<string name=\"api_key\">", "</string>"),
        ("https://", "@git.internal/x.git"),
        ("git clone https://", ":@git.internal/x.git"),
        ("client.bearer_auth(\"", "\")"),
        ("level=info msg=login token=", " user=bob"),
        ("?a\\u003db\\u0026access_token\\u003d", "\\u0026x"),
        ("next=%2Fcallback%3Faccess_token%3D", "%26x"),
        ("Connect-Host -Token ", " -User bob"),
        ("{\\u0022access_token\\u0022:\\u0022", "\\u0022}"),
        ("&quot;apiKey&quot;:&quot;", "&quot;"),
    ] {
        list.push((before.into(), token(d), after));
    }

    // Whole texts in base64, wherever in them the secret is.
    for lead in ["", "A", "AB", "DATABASE_", "# the settings of the app\n"] {
        let text = format!("{lead}URL=postgres://app:{}@db.internal:5432/main\n", word(d));
        list.push(("config: ".into(), base64(&text).trim_end_matches('=').to_owned(), "\n"));
        let text = format!("{lead}{{\"user\": \"app\", \"password\": \"{}\"}}\n", pw(d));
        list.push(("echo ".into(), base64(&text).trim_end_matches('=').to_owned(), " | base64 -d"));
        let text = format!("{lead}X=1\nAPI_TOKEN={}\nY=2\n", token(d));
        list.push(("{\"data\": \"".into(), base64(&text).trim_end_matches('=').to_owned(), "\"}"));
    }
    list
}

#[test]
fn secrets_are_found_in_every_wrapping() {
    all_are_found(wrapped);
}

/// As tools print secrets, and as commands take them whose options no rule above tries.
#[rustfmt::skip]
fn printed(d: &mut Dice) -> Vec<Wrapped> {
    let mut list: Vec<Wrapped> = Vec::new();
    let word = |d: &mut Dice| format!("{}7{}", d.of(ALNUM, 6), d.of(ALNUM, 4));
    let token = |d: &mut Dice| format!("{}4{}", d.of(ALNUM, 20), d.of(ALNUM, 12));

    // Objects whose value is not the field next to the name.
    for (before, after) in [
        ("{\n  \"db_password\": {\n    \"sensitive\": true,\n    \"type\": \"string\",\n    \"value\": \"", "\"\n  }\n}\n"),
        ("{\"db_password\":{\"sensitive\":true,\"type\":\"string\",\"value\":\"", "\"}}"),
        ("{\\\"db_password\\\":{\\\"sensitive\\\":true,\\\"value\\\":\\\"", "\\\"}}"),
        ("{\"DB_PASSWORD\":{\"computed\":\"", "\",\"note\":\"\"}}"),
        ("  {\n    \"name\": \"DB_PASSWORD\",\n    \"slotSetting\": false,\n    \"value\": \"", "\"\n  }\n"),
        ("{\n  \"Parameter\": {\n    \"Name\": \"/prod/db/password\",\n    \"Type\": \"SecureString\",\n    \"Value\": \"", "\",\n"),
        ("  \"name\": \"db-password\",\n  \"tags\": null,\n  \"value\": \"", "\"\n}"),
        ("output \"db_password\" {\n  description = \"of the database\"\n  value = \"", "\"\n}"),
        ("db_password = <<EOT\n", "\nEOT\n"),
        ("password: &pw ", "\n"),
        ("password: !!str ", "\n"),
        ("  key     |   value\n----------+---------\n db_password | ", "\n"),
        ("│ password │ ", " │\n"),
        ("\"args\": [\"--user\", \"app\", \"--password\", \"", "\"]"),
        ("['--token', '", "']"),
        ("define( 'DB_PASSWORD', '", "' );"),
        ("CREATE LOGIN app WITH PASSWORD = N'", "';"),
        ("process.env.DB_PASSWORD || '", "'"),
        ("process.env.DB_PASSWORD ?? \"", "\""),
        ("page.fill('#password', '", "')"),
        ("page.getByLabel('Password').fill('", "')"),
        ("driver.find_element(By.ID, 'password').send_keys('", "')"),
        ("dotnet user-secrets set \"Db:Password\" \"", "\"\n"),
        ("chpasswd:\n  list: |\n    root:", "\n"),
        ("[Note] A temporary password is generated for root@localhost: ", "\n"),
        ("BUNDLE_GEMS__INTERNAL: \"bob:", "\"\n"),
        ("BUNDLE_GEMS__INTERNAL=bob:", "\n"),
        ("*:*:*:app:", "\n"),
        ("db.internal:6432:main:app:", "\n"),
        ("machine h login bob account x password ", "\n"),
        ("expect \"Password:\"\nsend \"", "\\r\"\n"),
        ("psk=\"", "\"\n"),
        ("bindpw ", "\n"),
    ] {
        let secret = if before.contains("token") { token(d) } else { word(d) };
        list.push((before.into(), secret, after));
    }

    // Commands.
    for (before, after) in [
        ("aws ssm put-parameter --name /prod/db/password --type SecureString --value ", " --overwrite\n"),
        ("aws ssm put-parameter --name \"/prod/db/password\" --value \"", "\" --type SecureString\n"),
        ("az keyvault secret set --vault-name v --name db-password --value ", "\n"),
        ("gh secret set DB_PASSWORD --body \"", "\"\n"),
        ("gh secret set DB_PASSWORD -b ", "\n"),
        ("echo \"", "\" | gh secret set DB_PASSWORD\n"),
        ("echo ", " | wrangler secret put DB_PASSWORD\n"),
        ("vercel env add DB_PASSWORD production <<< \"", "\"\n"),
        ("echo '", "' | kinit bob\n"),
        ("echo -n '", "' | cryptsetup open /dev/sdb x -\n"),
        ("pulumi config set --secret dbPassword ", "\n"),
        ("poetry config http-basic.internal bob ", "\n"),
        ("poetry config pypi-token.pypi ", "\n"),
        ("rabbitmqctl add_user app ", "\n"),
        ("mc alias set store https://minio:9000 app ", "\n"),
        ("nmcli dev wifi connect home password ", "\n"),
        ("net use Z: \\\\srv\\s /user:bob ", "\n"),
        ("cqlsh -u cassandra -p ", " host\n"),
        ("cypher-shell -u neo4j -p ", "\n"),
        ("rabbitmqadmin -u app -p ", " list\n"),
        ("evil-winrm -i h -u bob -p '", "'\n"),
        ("ipmitool -H h -U admin -P ", " power on\n"),
        ("mosquitto_pub -h h -u bob -P ", " -t x\n"),
        ("security unlock-keychain -p ", " x.keychain\n"),
        ("jarsigner -storepass ", " x.jar a\n"),
        ("useradd -m -p ", " bob\n"),
        ("usermod -p '", "' bob\n"),
        ("signtool sign /f c.pfx /p ", " x.exe\n"),
        ("SSHPASS=", " sshpass -e ssh host\n"),
        ("NEO4J_AUTH=neo4j/", "\n"),
        ("test: [\"CMD\", \"mysqladmin\", \"ping\", \"-uroot\", \"-p", "\"]\n"),
        ("subprocess.run([\"curl\", \"-u\", \"bob:", "\", url])"),
        ("['mysql', '-uroot', '-p", "', '-e', 'select 1']"),
        ("command: [\"redis-server\", \"--requirepass\", \"", "\"]\n"),
        ("> AUTH default ", "\nOK\n"),
        ("ACL SETUSER app on >", " ~* +@all\n"),
        ("server.login('bob', '", "')"),
        ("db.auth('app', '", "')"),
        ("new Credentials(\"bob\", \"", "\")"),
        ("Password for the [elastic] user successfully reset.\nNew value: ", "\n"),
    ] {
        list.push((before.into(), word(d), after));
    }
    let lower = |d: &mut Dice| d.of("abcdefghijklmnopqrstuvwxyz", 4);
    let apple = |d: &mut Dice| [lower(d), lower(d), lower(d), lower(d)].join("-");
    list.push(("xcrun altool --upload-app -u bob -p ".into(), apple(d), "\n"));
    list.push(("xcrun notarytool submit --password ".into(), apple(d), " x.zip\n"));

    // What has a shape, or a name, of its own.
    let id = |d: &mut Dice| d.of("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 16);
    let at = "2026-01-01T00:00:00+00:00";
    list.push((format!("CREDENTIALS\tASIA{}\t{at}\t", id(d)), d.of(BASE64, 40), "\tIQoJ\n"));
    list.push(("CREDENTIALS\t".into(), "IQoJb3JpZ2luX2VjE".to_owned() + &d.of(BASE64, 300), "\n"));
    list.push(("$ aws ecr get-login-password\n".into(), "eyJwYXlsb2FkIjoi".to_owned() + &d.of(BASE64, 400), "\n"));
    list.push(("cloudflared service install ".into(), "eyJhIjoi".to_owned() + &d.of(ALNUM, 160), "\n"));
    list.push(("\"primaryKey\": \"".into(), d.of(BASE64, 43) + "=", "\",\n"));
    list.push(("\"primaryMasterKey\": \"".into(), d.of(BASE64, 86) + "==", "\",\n"));
    list.push(("[Interface]\nPrivateKey = /".into(), d.of(BASE64, 42) + "=", "\n"));
    list.push(("SecretID:         ".into(), d.uuid(), "\n"));
    list.push(("Initial Root Token: ".into(), "s.".to_owned() + &d.of(ALNUM, 24), "\n"));
    list.push(("vault operator unseal ".into(), d.of(BASE64, 43) + "=", "\n"));
    list.push(("CONFLUENCE_PAT=".into(), d.of(ALNUM, 44), "\n"));
    list.push(("GITEA_PAT=".into(), d.of(HEX, 40), "\n"));
    list.push(("\"key=".into(), format!("AAAA{}:APA91b{}", d.of(ALNUM, 7), d.of(ALNUM, 134)), "\""));
    list.push(("OTEL_EXPORTER_OTLP_HEADERS=\"x-honeycomb-team=".into(), d.of(ALNUM, 22), "\"\n"));
    list.push(("OTEL_EXPORTER_OTLP_HEADERS=\"Authorization=Basic%20".into(), base64(&format!("12345:{}", token(d))), "\"\n"));
    list.push(("Authorization: GenieKey ".into(), d.uuid(), "\n"));
    list.push(("users=bob:$$apr1$$".into(), format!("{}$${}", d.of(ALNUM, 8), d.of(ALNUM, 22)), "\n"));
    list.push(("users=bob:$$2y$$05$$".into(), d.of(ALNUM, 53), "\n"));
    list.push(("wandb login ".into(), d.of(HEX, 40), "\n"));
    list.push(("ngrok config add-authtoken ".into(), format!("{}_{}", d.of(ALNUM, 27), d.of(ALNUM, 21)), "\n"));
    list.push(("codecov -t ".into(), d.uuid(), "\n"));
    list.push(("Client(\"AC00000000000000000000000000000000\", \"".into(), d.of(HEX, 32), "\")"));
    list.push(("{\"username\":\"bob\",\"key\":\"".into(), d.of(HEX, 32), "\"}"));
    list.push(("kubeadm join 10.0.0.1:6443 --token ".into(), format!("{}.{}", d.of(LOWER, 6), d.of(LOWER, 16)), " --discovery-token-ca-cert-hash x\n"));
    list.push(("curl -H \"x-auth: ".into(), token(d), "\" https://host"));
    list.push(("client.login('M".into(), format!("{}.{}.{}", d.of(ALNUM, 25), d.of(ALNUM, 6), d.of(ALNUM, 38)), "')"));
    list.push(("C: AUTH PLAIN ".into(), base64(&format!("\0bob\0{}", word(d))), "\n"));
    list.push(("Please use the following password to proceed to installation:\n\n".into(), d.of(HEX, 32), "\n"));
    list.push(("java -jar jenkins-cli.jar -auth bob:".into(), "11".to_owned() + &d.of(HEX, 32), " who\n"));
    list.push(("\"permissions\": \"FULL\",\n    \"value\": \"".into(), d.of(BASE64, 86) + "==", "\"\n"));
    list.push(("define( 'LOGGED_IN_SALT',  '".into(), d.of(&[ALNUM, " {}()<>[]$%&*+,-./:;=?@^_`|~"].concat(), 64), "' );\n"));
    list.push(("**API key:** `".into(), token(d), "`\n"));
    list.push(("Your new API key: ".into(), token(d), "\n"));
    list.push(("the token is: ".into(), token(d), "\n"));
    list.push(("openssl enc -aes-256-cbc -K ".into(), d.of(HEX, 64), " -iv 00\n"));
    // Base64 of a password, often without a digit.
    list.push(("apiVersion: v1\nkind: Secret\nstringData: {password: ".into(), word(d), "}\n"));
    for (before, after) in [
        ("{\"db-user\":\"YXBw\",\"password\":\"", "\"}"),
        ("{\"apiVersion\":\"v1\",\"data\":{\"password\":\"", "\"},\"kind\":\"Secret\"}"),
        ("map[password:", " username:YXBw]"),
        ("//npm.internal/:_password = \"", "\"\n"),
    ] {
        list.push((before.into(), base64(&word(d)), after));
        list.push((before.into(), "ZXQwdFJnciNWOHNv".into(), after));
    }
    list
}

pub(crate) fn as_printed(d: &mut Dice) -> Vec<String> {
    printed(d).into_iter().map(|(before, secret, after)| [&before, secret.as_str(), after].concat()).collect()
}

#[test]
fn secrets_are_found_as_tools_print_them() {
    all_are_found(printed);
}

fn all_are_found(texts: fn(&mut Dice) -> Vec<Wrapped>) {
    let mut missed = Vec::new();
    let mut all = 0;
    for seed in 1..=20 {
        for (before, secret, after) in texts(&mut Dice(seed)) {
            all += 1;
            let text = [&before, secret.as_str(), after].concat();
            let out = redact(&text).text;
            // No half of it stays either.
            let (one, other) = secret.split_at(secret.len() / 2);
            if !out.contains("[REDACTED:") || out.contains(one) || out.contains(other) {
                missed.push(format!("{before:?}: {text:?} became {out:?}"));
            }
        }
    }
    missed.sort();
    missed.dedup_by_key(|line| line.split(": ").next().unwrap_or_default().to_owned());
    assert!(missed.is_empty(), "{} of {all} texts:\n{}", missed.len(), missed.join("\n"));
}

#[test]
fn text_that_only_looks_wrapped_stays() {
    let mut d = Dice(3);
    for text in [
        "password    varchar(255) not null",
        "Password   string `json:\"password\"`",
        "Token      *oauth2.Token",
        "APIKey     string",
        "SecretKey  []byte",
        "  --password string   the password of the user",
        "  -p, --password=PASSWORD  the password",
        "password     is required",
        "NUGET_API_KEY\t2025-01-20T04:03:30Z\n",
        "DB_PASSWORD   2025-01-20T04:03:30Z\n",
        "user.setPassword(newPassword1);",
        "user.setPassword(\"\");",
        ".password(env.var(\"DB_PASSWORD\"))",
        "check_password(\"wrong\")",
        "getPassword(\"db\")",
        "t.password(\"Enter your password\")",
        "password <- readline(\"Password: \")",
        "char password[64];",
        "char password[MAX_LEN] = {0};",
        "Config { password: Some(password) }",
        "Config { password: None }",
        "password: Some(\"the password\")",
        "{\"X-Api-Key\": [\"string\"]}",
        "map[Authorization:[Bearer <token>]]",
        "{\"required\": [\"password\", \"token2\"]}",
        "{user, password, email1}",
        "{:keys [user password token1]}",
        "otpauth://totp/{issuer}?secret={secret}&issuer=x",
        "echo $PASSWORD | docker login -u bob --password-stdin",
        "echo \"${PASSWORD}\" | docker login -u bob --password-stdin",
        "cat token.txt | docker login -u bob --password-stdin",
        "echo \"hello\" | sudo tee /etc/motd",
        "echo 'deb http://host v2 main' | sudo tee /etc/apt/x.list",
        "sudo -S true <<< \"$PASSWORD\"",
        "ssh-keygen -t ed25519 -N '' -f key1",
        "ssh-keygen -t ed25519 -N \"\" -C me@host2",
        "htpasswd -c .htpasswd bob",
        "gpg --passphrase-file key1.txt -d x",
        "gpg --passphrase \"\" --gen-key",
        "echo \"$USER:$PASS\" | chpasswd",
        "requirepass",
        "# requirepass foobared",
        "proxy_set_header X-Api-Key $http_x_api_key;",
        "fastcgi_param DB_PASSWORD $db_password;",
        "<string name=\"password\">Password</string>",
        "<string name=\"password_hint\">At least 8 characters</string>",
        "<key>password</key>\n<true/>",
        "Password:\n  type: string",
        "Password:\nconfirm it",
        "https://github.com/owner/repo@v1.2.3",
        "git+https://github.com/a/b@d41d8cd98f00b204e9800998ecf8427e0a1b2c3d",
        "https://medium.com/@someone1234567890/a-title",
        "{&quot;password&quot;:&quot;string&quot;}",
        "{\\u0022token\\u0022:\\u0022string\\u0022}",
        "body=password%3D%24PASSWORD%26x",
        "printf 'DB_PASSWORD=%s\\n' \"$DB_PASSWORD\"",
        "Connect-Host -Password $password",
        "Dim password As String",
        "userPassword:: ",
        "Unseal Key 1: <key>",
        "password := []byte(os.Getenv(\"DB_PASSWORD\"))",
        "let password = String::new();",
        "assert_eq!(token(\"a b\"), 1)",
        // Near what tools print.
        "{\"password\": {\"type\": \"string\", \"minLength\": 8, \"default\": \"\", \"value\": null}}",
        "{\"name\": \"token\", \"in\": \"header\"}, {\"name\": \"id\", \"value\": \"a1b2C3d4\"}",
        "variable \"db_password\" {\n  type      = string\n  sensitive = true\n}\nvariable \"size\" {\n  default = \"t3.large-2a\"\n}",
        "      + password = (sensitive value)\n      + token = (known after apply)\n",
        "db_password = <sensitive>\n",
        "db_password = <<EOT\n${var.password1}\nEOT\n",
        "password: &default_password\n  length: 12\n",
        "token: *token1\n",
        "NAME             TYPE      DATA   AGE\ndb-password      Opaque    2      3d\n",
        "Data\n====\npassword:  16 bytes\ntoken:     842 bytes\n",
        " token | varchar(64) | not null\n",
        "│ password │ varchar(255) │\n",
        "  token | string1\n  | null",
        "[\"--password\", \"--user\"]",
        "parser.add_argument('--password', '-p1', help='x2')",
        "[\"--token\", \"TOKEN2\"]",
        "password || 'required'",
        "process.env.TOKEN ?? ''",
        "const key = apiKey ?? defaults.key1",
        "page.fill('#password', user.password1)",
        "page.getByLabel('Password').fill('')",
        "dotnet user-secrets set \"Db:Password\" \"$DB_PASSWORD\"",
        "gh secret set DB_PASSWORD --body \"$DB_PASSWORD\"",
        "gh secret set DB_PASSWORD < password1.txt",
        "gh issue create --title x1 --body \"the 2nd try\"",
        "echo \"$TOKEN\" | gh secret set TOKEN",
        "aws ssm put-parameter --name /prod/db/password --value \"$PASSWORD\" --type SecureString",
        "aws ssm get-parameter --name /prod/db/password1 --with-decryption",
        "pulumi config set --secret dbPassword",
        "pulumi config set aws:region eu-west-1",
        "poetry config virtualenvs.in-project true",
        "rabbitmqctl list_users user1",
        "mc alias list store1",
        "net use Z: \\\\srv\\share1",
        "nmcli dev wifi connect home1",
        "mkdir -p some/path1",
        "useradd -m -s /bin/bash bob1",
        "security find-generic-password -s name1 -w",
        "> AUTH required for user2",
        "wandb login --relogin",
        "ngrok config check",
        "vault operator unseal",
        "codecov -f coverage1.xml",
        "\"primaryKey\": \"user_id\"",
        "primaryKey: [\"id\", \"tenant_id2\"]",
        "SecretID: the id of the secret",
        "PublicKey = 5qVCrGBsDYbNGPXqwYRcMzPmlsHuQUVVQeOYYM1mGVA=",
        "psk: the pre-shared key",
        "BUNDLE_PATH: \"vendor/bundle\"",
        "BUNDLE_MIRROR__HTTPS://RUBYGEMS__ORG/: \"https://mirror1.internal\"",
        "*:*:*:*:*",
        "arn:aws:s3:::*:*:*:a1",
        "db.internal:6432",
        "send \"exit\\r\"",
        "client.login(token)",
        "page.login('bob', password1)",
        "request.auth('bob', 'password')",
        "ACL SETUSER app on nopass ~* +@all",
        "The index was successfully reset.\nNew value: 12",
        "define('AUTH_KEY', 'put your unique phrase here');",
        "client.login('bob1')",
        "new Client(\"AC00000000000000000000000000000000\", token)",
        "{\"username\":\"bob\",\"key\":\"value1\"}",
        "x-auth: required",
        "the API key: see the vault",
        "your new API key is shown once",
        "\"deploy key: SHA256:abc\"",
        "the token is: expired",
        "AUTH PLAIN LOGIN CRAM-MD5",
        "xcrun notarytool submit --keychain-profile work-mail-from-bobs",
        "\"password\": \"UserPasswordField\"",
        "\"password\":\"LoginPageHeading\"",
        "openssl x509 -keyout k1 -K",
        "OTEL_EXPORTER_OTLP_HEADERS=\"x-honeycomb-team=$TEAM\"",
        "arn:aws:secretsmanager:eu-west-1:123456789012:secret:prod/db/password-AbC1dE",
    ] {
        unchanged(text);
    }
    for text in [
        "The password is required, and the token of the user as well.",
        "GET https://example.org/path?x=1 HTTP/1.1\nHost: example.org\n",
        "{\"password\": \"string\", \"token\": null}",
        "password=$DB_PASSWORD\n",
    ] {
        unchanged(&base64(text));
    }
    unchanged(&format!("data:image/png;base64,iVBORw0KGgo{}", d.of(crate::secrets::BASE64, 40_000)));
}
